"""A process of the cluster, as it tells of itself."""

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
    """A line of a process' log."""

    at: float
    """Epoch seconds."""
    level: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What a process was doing when it told of itself last; what it does not tell is None."""

    rate: float | None = None
    """Per second since the heartbeat before: pages of a crawler, records of kafka-monitor, answers
    of REST."""
    in_flight: int | None = None
    """Pages of a crawler, requests that wait of REST."""
    resident_bytes: int | None = None
    """Memory that is in RAM."""
    complaints: Sequence[LogLine] = ()
    """Warnings, or worse; the latest first."""
    can_drain: bool = False
    """Whether it drains if somebody wishes it, and has not begun to."""
    tail: Sequence[LogLine] = ()
    """The latest lines of its log, the latest first, while somebody looks at them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One living process of the cluster, as it tells of itself."""

    kind: str
    """``kafka-monitor``, ``redis-monitor``, ``crawler`` or ``rest``."""
    spider: str = ""
    """Name of the spider, of a crawler only."""
    host: str = field(default_factory=socket.gethostname)
    node: str = field(default_factory=lambda: uuid4().hex[:12])
    """Tells apart the processes of one host."""
    pid: int = field(default_factory=os.getpid)
    started: float = field(default_factory=time.time)
    """Epoch seconds."""
    version: str = __version__
    values: Mapping[str, str] = field(default_factory=dict)
    """Settings that all its equals must have alike, by their variables."""
    activity: Activity = field(default_factory=Activity, compare=False)
    pipelines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)
    """What a process tells of each pipeline that it runs: see `stats.pipelines`."""

    @property
    def name(self) -> str:
        """What its key is named by."""
        return f"{self.kind}:{self.host}:{self.node}"
