"""The last band of a domain: pages that wait until nothing else of their domain waits.

It is a range of priorities below those of all other pages. An entry keeps its order there: 100
steps of its own priority are one of the last band.
"""

from __future__ import annotations

from typing import Final

LOWEST: Final = -7_000
"""Lowest priority of other pages of a crawl that puts links last."""
_LAST = -7_900
_STEPS = 100
_HIGHEST = -7_500
"""Above the last band, with room for the pages of it that are retried."""


def last_of(priority: int) -> int:
    """Return the priority in the last band of an entry with a priority of its own."""
    return _LAST + round(max(priority, LOWEST) / _STEPS)


def is_last(priority: int) -> bool:
    """Return whether entries with a priority wait in the last band."""
    return priority <= _HIGHEST


def lifted(priority: int) -> int:
    """Return the priority that an entry of the last band would have elsewhere; others stay."""
    return _STEPS * (priority - _LAST) if is_last(priority) else priority
