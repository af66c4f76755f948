"""Times, sizes and reasons as people read them: commands and screens write them alike."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

TIME_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
"""Units of time, each with its seconds."""
_SIZES = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 1000))


def duration(seconds: float) -> str:
    """Return ``42 s``, ``14 min``, ``2 h 5 min`` or ``4 d 3 h``: two units, no seconds in hours."""
    left = max(int(seconds), 0)
    for (unit, size), (below, smaller) in pairwise(TIME_UNITS):
        if left >= size:
            rest = left % size // smaller if smaller > 1 else 0
            return f"{left // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{left} s"


def ago(seconds: float) -> str:
    """Return ``3 s ago``, ``2 h 5 min ago``."""
    return f"{duration(seconds)} ago"


def size(number: float) -> str:
    """Return bytes as ``17 B``, ``78.7 kB``, ``3.9 MB``."""
    for unit, least in _SIZES:
        if number >= least:
            return f"{number / least:.1f} {unit}"
    return f"{number:.0f} B"


def by_reason(counts: Mapping[str, int]) -> str:
    """Return ``dns 12, timeout 1``: the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{reason} {count:,}" for reason, count in ordered)
