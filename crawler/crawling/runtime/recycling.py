"""When a worker has lived long enough: it drains, ends with 0, and a supervisor starts it anew.

A crawler runs other people's parsers over other people's pages. What leaks there leaks slowly, and
a process that leaves in time costs no page, while one that the kernel ends costs several.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

LOOK_EVERY_S = 5.0
"""Also the least life of a worker, so that a limit too low does not spin a supervisor."""
_JITTER = 0.1

_process = psutil.Process()


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    resident: int = _process.memory_info().rss
    return resident


@dataclass(slots=True)
class Lifetime:
    """The limits of one process; 0 means none."""

    max_bytes: int
    max_age_s: float
    """Varied by a tenth, so that workers started together do not end together."""
    clock: Callable[[], float] = time.monotonic
    resident: Callable[[], int] = resident_bytes
    _ends_at: float = field(init=False)

    def __post_init__(self) -> None:
        varied = self.max_age_s * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311  no secret
        self._ends_at = self.clock() + varied if self.max_age_s else float("inf")

    def over(self) -> str:
        """Why the process should end, ``memory`` or ``age``; empty while it should not."""
        if self.max_bytes and self.resident() > self.max_bytes:
            return "memory"
        return "age" if self.clock() >= self._ends_at else ""
