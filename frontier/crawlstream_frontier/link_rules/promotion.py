"""Priorities in a crawl with a score: a page that waits and is linked to a third time is promoted.

They are multiples of ten, but for promoted pages: the last digit shows by which links.
"""

from __future__ import annotations

from typing import Final

WITHIN: Final = 17
"""Promotion by a link of its own domain: it ranks higher there, but not among domains."""
ACROSS: Final = 18
"""Promotion by a link of another domain."""
_LAST = -7_500
"""Highest priority of the last band; nothing is promoted there."""


def in_tens(priority: int) -> int:
    """Return the priority of a page that was not promoted."""
    return priority - priority % 10


def is_promoted(priority: int) -> bool:
    """Return whether pages of a crawl with a score that have a priority were promoted."""
    return priority > _LAST and priority % 10 in {WITHIN % 10, ACROSS % 10}


def unpromoted(priority: int) -> int:
    """Return the priority that a page had before it was promoted; others stay."""
    if not is_promoted(priority):
        return priority
    return priority - (WITHIN if priority % 10 == WITHIN % 10 else ACROSS)
