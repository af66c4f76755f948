"""A process of the cluster, as its heartbeat reports it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from crawlstream import __version__


@dataclass(frozen=True, slots=True)
class LogLine:
    """Line of a process's log."""

    at: float
    """Epoch seconds."""
    level: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Activity of a process at its last heartbeat; values that it does not report are None."""

    rate: float | None = None
    """Rate per second since the previous heartbeat: pages of a crawler, records of kafka-monitor,
    responses of REST."""
    in_flight: int | None = None
    """Pages in flight of a crawler, pending requests of REST."""
    resident_bytes: int | None = None
    """Resident memory."""
    complaints: Sequence[LogLine] = ()
    """Log lines of level warning or above, the latest first."""
    can_drain: bool = False
    """True if the process can drain on request and is not draining yet."""
    tail: Sequence[LogLine] = ()
    """Last lines of its log, the latest first, while a client requests them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """Running process of the cluster, as its heartbeat reports it."""

    kind: str
    """``kafka-monitor``, ``redis-monitor``, ``crawler`` or ``rest``."""
    spider: str = ""
    """Name of the spider; crawlers only."""
    host: str = field(default_factory=socket.gethostname)
    node: str = field(default_factory=lambda: uuid4().hex[:12])
    """Distinguishes the processes of one host."""
    pid: int = field(default_factory=os.getpid)
    started: float = field(default_factory=time.time)
    """Epoch seconds."""
    version: str = __version__
    values: Mapping[str, str] = field(default_factory=dict)
    """Settings that all processes of its kind must share, by their variables."""
    activity: Activity = field(default_factory=Activity, compare=False)
    pipelines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)
    """Report on each pipeline that the process runs: see `stats.pipeline_states`."""

    @property
    def name(self) -> str:
        """Return the name that its key contains."""
        return f"{self.kind}:{self.host}:{self.node}"
