"""Times as people read them: how long, how long ago, and when by the clock on the wall."""

from __future__ import annotations

import time
from itertools import pairwise

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def duration(seconds: float) -> str:
    """``42 s``, ``14 min``, ``2 h 5 min``, ``4 d 3 h``: two units at most, no seconds in hours."""
    left = max(int(seconds), 0)
    for (unit, size), (below, smaller) in pairwise(_UNITS):
        if left >= size:
            rest = left % size // smaller if smaller > 1 else 0
            return f"{left // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{left} s"


def ago(seconds: float) -> str:
    """``3 s ago``, ``2 h 5 min ago``."""
    return f"{duration(seconds)} ago"


def moment(epoch_s: float, *, now: float | None = None) -> str:
    """``18:16:10 (14 min ago)`` in local time, with its date if that is not today's.

    Both times are in epoch seconds.
    """
    now = time.time() if now is None else now
    then, today = time.localtime(epoch_s), time.localtime(now)
    is_today = (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday)
    at = time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S", then)
    return f"{at} ({ago(now - epoch_s)})"
