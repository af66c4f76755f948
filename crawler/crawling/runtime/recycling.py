"""Recycling of a worker: it drains, ends with 0, and a supervisor restarts it.

A crawler runs third-party parsers on third-party pages. Their memory leaks are slow. A process that
ends in time costs no page; a process that the kernel kills costs several.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

LOOK_EVERY_S = 5.0
"""Seconds between looks, and the minimum life of a worker: too low a limit must not make a
supervisor spin."""
_JITTER = 0.1

_process = psutil.Process()


def resident_bytes() -> int:
    """Return the memory of this process that is in RAM."""
    resident: int = _process.memory_info().rss
    return resident


@dataclass(slots=True)
class Lifetime:
    """The limits of one process; 0 means none."""

    max_bytes: int
    max_age_s: float
    """Maximum age; varied by a tenth, so that workers started together do not end together."""
    clock: Callable[[], float] = time.monotonic
    resident: Callable[[], int] = resident_bytes
    _ends_at: float = field(init=False)

    def __post_init__(self) -> None:
        varied = self.max_age_s * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311  no secret
        self._ends_at = self.clock() + varied if self.max_age_s else float("inf")

    def over(self) -> str:
        """Return why the process should end: ``memory``, ``age``, or empty if it should not."""
        if self.max_bytes and self.resident() > self.max_bytes:
            return "memory"
        return "age" if self.clock() >= self._ends_at else ""
