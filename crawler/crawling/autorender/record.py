"""Record of a site: which families of its URLs need a browser, by pairs of documents.

A *pair* is one document as its site sends it and as a browser makes it. The record counts, for each
family, those that needed the browser and those that did not, and has a verdict on each family.

A wrong `plain` loses text and links, a wrong `browser` costs CPU time. So a family of which an
eighth needs a browser is rendered as a whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

_VERSION = 1
_HEAD = struct.Struct("<B19xI")
"""Version and serial, which is where sketches of the waste guard have theirs."""
_FAMILY = struct.Struct("<IBHH")
_MOST_FAMILIES = 20
_AGREE = 8
"""Pairs without a need for `plain`; and the share, as a divisor, of needs for `browser`."""
_CERTAIN, _CONTRADICTS = 2, 3
_DECIDED_BY = 32
"""Pairs after which a family has a verdict in any case."""
_HALVED_AT = 64
_UNSURE_1_IN, _LIKELY_1_IN, _PLAIN_1_IN = 4, 16, 64


class RenderVerdict(IntEnum):
    """How the pages of a family are fetched."""

    UNSURE = 0
    PLAIN = 1
    BROWSER = 2


class PairVote(NamedTuple):
    """Result of one pair."""

    family: int
    """Hash of the family of its URL."""
    is_needed: bool
    """True if the browser was needed."""


@dataclass(slots=True)
class _Family:
    verdict: RenderVerdict = RenderVerdict.UNSURE
    needed: int = 0
    plain: int = 0

    @property
    def is_often_needed(self) -> bool:
        return self.needed * _AGREE >= self.needed + self.plain

    def add(self, *, is_needed: bool) -> None:
        """Count one pair, and judge."""
        self.needed += is_needed
        self.plain += not is_needed
        if self.verdict is RenderVerdict.PLAIN:
            if self.needed >= _CONTRADICTS:
                is_browser = self.is_often_needed
                self._become(
                    RenderVerdict.BROWSER if is_browser else RenderVerdict.UNSURE, forget=True
                )
        elif self.verdict is RenderVerdict.BROWSER:
            if self.plain >= _CONTRADICTS and not self.is_often_needed:
                self._become(RenderVerdict.UNSURE)
        elif self.needed >= _CERTAIN and self.is_often_needed:
            self._become(RenderVerdict.BROWSER, forget=True)
        elif self.plain >= (_DECIDED_BY if self.needed else _AGREE):
            self._become(RenderVerdict.PLAIN, forget=True)
        if self.needed + self.plain >= _HALVED_AT:
            self.needed //= 2
            self.plain //= 2

    def _become(self, verdict: RenderVerdict, *, forget: bool = False) -> None:
        self.verdict = verdict
        if forget:
            self.needed = self.plain = 0


_NOTHING = _Family()


@dataclass(slots=True)
class RenderRecord:
    """Verdicts on the families of one site."""

    families: dict[int, _Family] = field(default_factory=dict)
    """By hash; the latest are the last."""

    def add(self, votes: Iterable[PairVote]) -> None:
        """Count pairs. Beyond 20 families, the one without a vote for the longest time leaves."""
        for vote in votes:
            found = self.families.pop(vote.family, None) or _Family()
            found.add(is_needed=vote.is_needed)
            self.families[vote.family] = found
            if len(self.families) > _MOST_FAMILIES:
                del self.families[next(iter(self.families))]

    def verdict(self, family: int) -> RenderVerdict:
        """Return the verdict on a family; of one without evidence, that on all of the site."""
        found = self.families.get(family, _NOTHING)
        if found.verdict is not RenderVerdict.UNSURE or found.plain:
            return found.verdict
        if found.needed:
            return RenderVerdict.BROWSER
        is_plain = any(each.plain or each.verdict is RenderVerdict.PLAIN for each in self._all)
        return RenderVerdict.BROWSER if self._is_needed and not is_plain else RenderVerdict.UNSURE

    def is_tried(self, family: int, url: str) -> bool:
        """Return whether a page is rendered so that a verdict can be found, or be checked.

        The same pages are in every process that knows the same.
        """
        return crc32(url.encode(errors="surrogatepass")) % self._tried_1_in(family) == 0

    def _tried_1_in(self, family: int) -> int:
        if self.families.get(family, _NOTHING).verdict is RenderVerdict.PLAIN:
            return _PLAIN_1_IN
        is_plain = any(each.verdict is RenderVerdict.PLAIN for each in self._all)
        return _LIKELY_1_IN if is_plain and not self._is_needed else _UNSURE_1_IN

    @property
    def _all(self) -> Iterable[_Family]:
        return self.families.values()

    @property
    def _is_needed(self) -> bool:
        return any(each.needed or each.verdict is RenderVerdict.BROWSER for each in self._all)


def pack(record: RenderRecord, serial: int) -> bytes:
    """Pack a record into at most 204 bytes."""
    families = (
        _FAMILY.pack(name, each.verdict, each.needed, each.plain)
        for name, each in record.families.items()
    )
    return _HEAD.pack(_VERSION, serial & 0xFFFFFFFF) + b"".join(families)


def unpack(raw: bytes | None) -> RenderRecord:
    """Return a packed record; an empty one for bytes that are none."""
    record = RenderRecord()
    families = raw[_HEAD.size :] if raw else b""
    is_ours = raw and raw[0] == _VERSION and len(families) <= _MOST_FAMILIES * _FAMILY.size
    if not is_ours or len(families) % _FAMILY.size:
        return record
    for name, verdict, needed, plain in _FAMILY.iter_unpack(families):
        if verdict > RenderVerdict.BROWSER:
            return RenderRecord()
        record.families[name] = _Family(RenderVerdict(verdict), needed, plain)
    return record
