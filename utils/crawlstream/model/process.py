"""A process of the cluster, as it tells of itself."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from crawlstream import __version__


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

    @property
    def name(self) -> str:
        """What its key is named by."""
        return f"{self.kind}:{self.host}:{self.node}"
