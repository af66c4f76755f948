"""Counters of the families of a site, and the words for what is decided about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import lru_cache
from zlib import crc32

MOST_FAMILIES = 20
LABEL_BYTES = 30
LARGEST_COUNT = 0xFFFF
"""Counters stop there: a sketch has 16 bits for each."""
MOST_MISSING = 3
"""Made-up neighbours after which a family is not refused while its sketch is kept."""
MOST_RELEASES = 4
"""Revoked verdicts after which a family stays last for a day."""
_PAGING = frozenset({"?page", "?p", "?start", "?offset", "/page/#"})
"""Families of the further pages of a list, which lead on."""
_SHOWN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~/#*?-")
_HASHES_REMEMBERED = 4_096
"""Names of families whose hash is known: sites repeat theirs on each page."""
_CUT_ESCAPE = re.compile(r"%[0-9A-F]?\Z")


class FamilyState(IntEnum):
    """Treatment of links into a family."""

    OPEN = 0
    LAST = 1
    """They wait in the last band of their domain."""
    REFUSED = 2


@lru_cache(_HASHES_REMEMBERED)
def family_hash(name: str) -> int:
    """Return the 32 bits by which a sketch knows a family."""
    return crc32(name.encode(errors="surrogatepass"))


_HOST_KEY = family_hash("host")


def label_of(name: str) -> str:
    """Return a name that is safe to show, of at most 30 bytes.

    Sites choose the names of their parameters: other bytes than
    ``[A-Za-z0-9_.~/#*?-]`` are escaped.
    """
    raw = name.encode(errors="surrogatepass")[:LABEL_BYTES]
    text = "".join(chr(byte) if byte in _SHOWN else f"%{byte:02X}" for byte in raw)[:LABEL_BYTES]
    return _CUT_ESCAPE.sub("", text)


@dataclass(slots=True)
class YieldCounts:
    """Pages of a family by what their text was, and pages of other families that it led to."""

    pages: int = 0
    heavy: int = 0
    """Pages with a frequent text, or a status other than 2xx."""
    dup: int = 0
    """Pages in the sample of texts whose text was known."""
    fresh: int = 0
    """Pages in the sample of texts whose text was new."""
    maybe: int = 0
    """Pages outside of the sample."""
    credit_fresh: int = 0
    """Pages of other families, linked to by this one, whose text was new."""
    credit_maybe: int = 0
    """Pages of other families, linked to by this one, outside of the sample."""

    def add(self, name: str) -> None:
        """Add 1 to a counter."""
        count = getattr(self, name)
        if count < LARGEST_COUNT:
            setattr(self, name, count + 1)

    def halve(self) -> None:
        """Halve all counters, so that older pages count less."""
        for name in YIELD_FIELDS:
            setattr(self, name, getattr(self, name) // 2)


YIELD_FIELDS = tuple(field.name for field in fields(YieldCounts))


@dataclass(slots=True, kw_only=True)
class Family:
    """A set of URLs of a site that are judged together."""

    key: int
    """Hash of its name; see ``family_hash``."""
    name: str = ""
    """Its name; empty until a page of it has voted since the sketch was unpacked."""
    label: str = ""
    """Its name as it is shown; empty if it is not known."""
    counts: YieldCounts
    eq: int = 0
    """Pairs of pages that differ only in this parameter or host, with equal texts."""
    ne: int = 0
    """Such pairs with different texts."""
    state: FamilyState = FamilyState.OPEN
    is_dropped: bool = False
    """True if the parameter or host does not matter."""
    is_confirmed: bool = False
    """True if its site has shown a made-up neighbour: it answers for URLs that no page links to."""
    missing: int = 0
    """Number of made-up neighbours that its site did not show; at most ``MOST_MISSING``."""

    releases: int = 0
    """Number of times that its verdict was taken back; at most ``MOST_RELEASES``."""

    @property
    def is_path(self) -> bool:
        """Return whether it is a family of paths."""
        return self.name.startswith("/")

    @property
    def is_paging(self) -> bool:
        """Return whether it is one of further pages of lists."""
        return self.name in _PAGING

    @property
    def is_host(self) -> bool:
        """Return whether it is the family of other hosts."""
        return self.key == _HOST_KEY

    @property
    def is_plain(self) -> bool:
        """Return whether nothing has been decided about it."""
        return self.state is FamilyState.OPEN and not self.is_dropped

    @property
    def verdict(self) -> str:
        """Return the word for what is decided: ``open``, ``last``, ``refused`` or ``dropped``."""
        return "dropped" if self.is_dropped else self.state.name.lower()

    @property
    def shown(self) -> str:
        """Return its name to show, or its hash."""
        return self.label or f"~{self.key:08x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictChange:
    """A family is judged otherwise than before."""

    family: str
    """Its name as it is shown."""
    before: str
    """``open``, ``last``, ``refused`` or ``dropped``."""
    after: str
    counts: dict[str, int]
    """Counters that decided, by the names of ``YieldCounts``, and ``eq`` and ``ne``."""


class FamilyTable:
    """The families of a sketch, oldest first; at most 20."""

    def __init__(self, families: list[Family] | None = None) -> None:
        self._by_key = {family.key: family for family in families or ()}

    def __iter__(self) -> Iterator[Family]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def known(self, name: str) -> Family | None:
        """Return a family if the sketch has it."""
        return self._by_key.get(family_hash(name))

    def of(self, name: str) -> Family:
        """Return a family. A new one takes the place of the plain one with the fewest pages."""
        key = family_hash(name)
        family = self._by_key.get(key)
        if family is None:
            if len(self._by_key) >= MOST_FAMILIES:
                plain = [each for each in self if each.is_plain] or list(self)
                del self._by_key[min(plain, key=lambda each: each.counts.pages).key]
            family = self._by_key[key] = Family(key=key, counts=YieldCounts())
        if family.name != name:
            family.name, family.label = name, label_of(name)
        return family
