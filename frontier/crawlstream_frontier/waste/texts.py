"""Texts that a site has shown: the frequent ones, and a sample of all."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

MOST_FREQUENT = 16
MOST_TEXTS = 188
LARGEST_MODULUS = 64
LARGEST_COUNT = 0x3FFF
_FREQUENT_AT = 4
MOST_TRIED = 15
"""Frequent texts of which a site is asked for a made-up neighbour, while its sketch is kept."""
_TRIED_AT = 8
"""Pages that the first of them must have; the second, twice as many, and so on."""


class Kind(StrEnum):
    """Kind of a page by its text; the values are names of ``YieldCounts``."""

    HEAVY = "heavy"
    DUP = "dup"
    FRESH = "fresh"
    MAYBE = "maybe"

    __hash__ = str.__hash__


class FrequentTexts:
    """Texts with the most pages, by the space-saving algorithm (Metwally and others, 2005).

    A text that takes the place of another begins with its count, which is then its error: the true
    number of pages is between count - error and count.
    """

    def __init__(
        self,
        counts: dict[int, tuple[int, int]] | None = None,
        tried: Mapping[int, bool] | None = None,
        tries: int = 0,
    ) -> None:
        """``counts``: count and error by text; for the others see the fields."""
        self.counts = counts or {}
        self.tried = dict(tried or {})
        """Texts of which a neighbour was made up: whether it showed the text, too."""
        self.tries = tries
        """Number of neighbours that were made up, also of texts that have left."""

    @property
    def soft_errors(self) -> frozenset[int]:
        """Return the texts that a site shows for pages that do not exist, with a status of 2xx."""
        return frozenset(text for text, is_there in self.tried.items() if is_there)

    @property
    def untried(self) -> frozenset[int]:
        """Return the texts of which a neighbour is to be made up."""
        least = _TRIED_AT * (self.tries + 1) if self.tries < MOST_TRIED else LARGEST_COUNT
        pages = {text: count - error for text, (count, error) in self.counts.items()}
        return frozenset(text for text in pages.keys() - self.tried if pages[text] >= least)

    def answer(self, text: int, *, is_there: bool) -> None:
        """Take in whether a made-up neighbour of a page with a text showed it."""
        if text in self.untried:
            self.tried[text] = is_there
            self.tries += 1

    def add(self, text: int) -> bool:
        """Count a page; return whether its text is frequent for certain."""
        counts = self.counts
        if text in counts:
            count, error = counts[text]
            counts[text] = count + 1, error
        elif len(counts) < MOST_FREQUENT:
            counts[text] = 1, 0
        else:
            least = self._least()
            error, _ = counts.pop(least)
            self.tried.pop(least, None)
            counts[text] = error + 1, error
        count, error = counts[text]
        if count >= LARGEST_COUNT:
            self.counts = {each: (c // 2, e // 2) for each, (c, e) in counts.items()}
        return count - error >= _FREQUENT_AT

    def _least(self) -> int:
        """Return the text with the fewest pages; one of errors only if there are no others."""
        counts = self.counts
        if self.tried and (soft := self.soft_errors):
            counts = {text: counts[text] for text in counts if text not in soft} or counts
        least, _ = min(counts.values())
        return next(text for text, (count, _) in counts.items() if count == least)


class TextSample:
    """Texts whose hash is 0 mod ``modulus``, oldest first; the modulus doubles when it is full.

    Each has the address of the first page with it. It brings a new text in later
    crawls, too.
    """

    def __init__(self, texts: Mapping[int, int] | None = None, modulus: int = 1) -> None:
        """``texts`` have 24 bits, and their addresses 8."""
        self.texts = dict(texts or {})
        self.modulus = modulus

    def is_first(self, text: int, address: int | None) -> bool:
        """Return whether a page is known as the first one with its text."""
        return address is not None and self.texts.get(text) == address

    def add(self, text: int, address: int | None) -> Kind:
        """Add a text, unless it is known or outside of the sample."""
        if text % self.modulus:
            return Kind.MAYBE
        if text in self.texts:
            return Kind.DUP
        self.texts[text] = address or 0
        while len(self.texts) > MOST_TEXTS:
            if self.modulus == LARGEST_MODULUS:
                del self.texts[next(iter(self.texts))]
            else:
                self.modulus *= 2
                self.texts = {k: v for k, v in self.texts.items() if k % self.modulus == 0}
        return Kind.FRESH


class SiteTexts:
    """Texts of a site."""

    def __init__(
        self, frequent: FrequentTexts | None = None, sample: TextSample | None = None
    ) -> None:
        self.frequent = frequent or FrequentTexts()
        self.sample = sample or TextSample()

    def add(self, text: int, address: int | None) -> Kind:
        """Count a page and return what its text is; ``address``: hash of its URL, if known."""
        if self.sample.is_first(text >> 8, address):
            return Kind.FRESH
        if self.frequent.add(text):
            return Kind.HEAVY
        return self.sample.add(text >> 8, address)
