"""CPU time of a piece of work in this process."""

from __future__ import annotations

import time
from collections.abc import Callable

_ROUNDS, _ROUND_S = 15, 0.02


def cpu_us(work: Callable[[], object]) -> float:
    """Return the µs of CPU time of one time of some work: the least of several rounds."""
    times, took_s = 1, 0.0
    while took_s < _ROUND_S:
        times *= 2
        took_s = _round_s(work, times)
    return min(_round_s(work, times) for _ in range(_ROUNDS)) / times * 1e6


def _round_s(work: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - began
