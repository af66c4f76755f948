"""Pairs of pages whose addresses differ in one parameter, or in their host."""

from __future__ import annotations

from typing import NamedTuple

from crawlstream_frontier.waste.families import LARGEST_COUNT, Family
from crawlstream_frontier.waste.votes import PagePair

MOST_PAIRS = 64
LARGEST_MODULUS = 64
_LARGEST_EQUAL = 1023
"""Both counters are halved above it."""
_DROPPED_AT, _PAGING_DROPPED_AT = 16, 64
"""Equal pairs from which on a parameter does not matter."""
_EQUAL_FOR_ONE_OTHER, _KEPT_BELOW = 32, 16


class FirstPage(NamedTuple):
    """First page of the sample with some address but for one part."""

    text: int
    """24 bits."""
    value: int
    """Value of that page, as ``PagePair.value``."""


class PairSample:
    """First pages by the key of a pair, oldest first; the modulus doubles when it is full."""

    def __init__(self, pages: dict[int, FirstPage] | None = None, modulus: int = 1) -> None:
        self.pages = pages or {}
        self.modulus = modulus

    def compare(self, pair: PagePair, text: int) -> bool | None:
        """Return whether a page has the text of its pair; None if none is known.

        ``text`` has 24 bits. The page is added if it is the first one of its key.
        """
        if pair.key % self.modulus:
            return None
        first = self.pages.get(pair.key)
        if first is None:
            self._add(pair, text)
            return None
        return None if first.value == pair.value else first.text == text

    def _add(self, pair: PagePair, text: int) -> None:
        self.pages[pair.key] = FirstPage(text, pair.value)
        while len(self.pages) > MOST_PAIRS:
            if self.modulus == LARGEST_MODULUS:
                del self.pages[next(iter(self.pages))]
            else:
                self.modulus *= 2
                self.pages = {k: v for k, v in self.pages.items() if k % self.modulus == 0}


def count_pair(family: Family, *, is_equal: bool) -> None:
    """Count a pair of a parameter or host, and decide whether that matters."""
    if is_equal:
        family.eq += 1
    else:
        family.ne = min(family.ne + 1, LARGEST_COUNT)
    if family.eq > _LARGEST_EQUAL:
        family.eq, family.ne = family.eq // 2, family.ne // 2
    if family.is_dropped:
        family.is_dropped = family.ne * _KEPT_BELOW <= family.eq
    else:
        least = _PAGING_DROPPED_AT if family.is_paging else _DROPPED_AT
        family.is_dropped = family.eq >= least and family.ne * _EQUAL_FOR_ONE_OTHER <= family.eq
