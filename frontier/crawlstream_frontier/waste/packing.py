"""Format of a sketch in Redis: at most 2 040 bytes, little-endian.

| Part | Bytes | Most |
|---|---|---|
| head, below | 24 | 24 |
| runs: hash u32 | 4 x 4 | 16 |
| frequent texts: text u32, count (14 bits), tried, soft error, error u16 | 8 x 16 | 128 |
| pairs: key 24 bits, text 24 bits, value u8 | 7 x 64 | 448 |
| families: hash u32; seven counters, eq, ne u16; verdict, below, u16 | 24 x 20 | 480 |
| names of families that are not open: index u8, length u8, text | 32 x 6 | 192 |
| sample of texts, up to the end: text 24 bits, address u8 | 4 x 188 | 752 |

The head: version u8; two hosts (1 bit), number of runs (3 bits), tries of texts (4 bits); log2 of
both moduli (4 bits each), number of frequent texts u8, of pairs u8, of families (5 bits) and names
(3 bits); main host u16; pages, changed, since and serial, u32 each.
A verdict: state (2 bits), dropped, confirmed, missing neighbours (2 bits), releases (3 bits).
The serial is last in the head: the script that writes a sketch compares these four bytes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from crawlstream_frontier.waste import pairs, texts
from crawlstream_frontier.waste.families import (
    LABEL_BYTES,
    MOST_FAMILIES,
    MOST_RELEASES,
    YIELD_FIELDS,
    Family,
    FamilyState,
    FamilyTable,
    YieldCounts,
)
from crawlstream_frontier.waste.sketch import MOST_RUNS, Sketch

MOST_BYTES = 2040
SERIAL = slice(20, 24)
"""SitePlace of the serial in a packed sketch."""
_VERSION = 3
_MOST_NAMES = 6
_DROPPED, _CONFIRMED, _MISSING, _RELEASES = 4, 8, 16, 64
"""Places next to the state of a family: two bits, and two numbers."""
_HEAD = struct.Struct("<6BH4I")
_TEXT = struct.Struct("<IHH")
_FAMILY = struct.Struct("<I10H")
_PAIR = struct.Struct("<HBHBB")
"""Numbers of 24 bits are in two parts."""
_LABEL = re.compile(rb"[A-Za-z0-9_.~/#*?%-]{1,30}")
_SAMPLE_BYTES, _RUN_BYTES = 4, 4
_RUNS, _TRIES = 2, 16
"""Places next to the flag of two hosts: two numbers."""
_TRIED, _SOFT = 0x4000, 0x8000
"""Places next to the count of a frequent text."""


class _Broken(ValueError):
    """Raised for bytes that are not a sketch of this version."""


def pack(sketch: Sketch, serial: int) -> bytes:
    """Return a sketch as bytes; ``serial`` counts the writes of the site's sketch."""
    names = _named(sketch.families)
    moduli = _log2(sketch.texts.sample.modulus) | _log2(sketch.pairs.modulus) << 4
    frequent, first_pages = sketch.texts.frequent, sketch.pairs.pages
    head = _HEAD.pack(
        _VERSION,
        sketch.has_two_hosts | len(sketch.runs) * _RUNS | frequent.tries * _TRIES,
        moduli,
        len(frequent.counts),
        len(first_pages),
        len(sketch.families) | len(names) << 5,
        sketch.main,
        sketch.pages,
        sketch.changed,
        sketch.since,
        serial & 0xFFFFFFFF,
    )
    return b"".join(
        [
            head,
            *(run.to_bytes(_RUN_BYTES, "little") for run in sketch.runs),
            *_pack_frequent(frequent),
            *map(_pack_pair, first_pages.items()),
            *map(_pack_family, sketch.families),
            *(bytes((index, len(name))) + name for index, name in names),
            _pack_sample(sketch.texts.sample),
        ]
    )


def unpack(raw: bytes | None) -> Sketch:
    """Return the sketch; an empty one if there is none, or if it does not parse."""
    try:
        return _Reader(raw).sketch() if raw else Sketch()
    except (_Broken, struct.error):
        return Sketch()


def serial_of(raw: bytes | None) -> int:
    """Return the serial of a packed sketch; 0 if there is none."""
    return int.from_bytes((raw or b"")[SERIAL], "little")


class _Reader:
    """Reads a packed sketch from its beginning to its end."""

    def __init__(self, raw: bytes) -> None:
        if len(raw) > MOST_BYTES:
            raise _Broken
        self._raw = raw
        self._at = 0

    def sketch(self) -> Sketch:
        """Return the sketch; _Broken or struct.error."""
        head = _HEAD.unpack(self._take(_HEAD.size))
        version, flags, moduli, frequent, first_pages, families = head[:6]
        if version != _VERSION:
            raise _Broken
        sketch = Sketch()
        sketch.has_two_hosts = bool(flags % _RUNS)
        runs = self._each(flags % _TRIES // _RUNS, _RUN_BYTES, MOST_RUNS)
        sketch.runs = [int.from_bytes(part, "little") for part in runs]
        sketch.main, sketch.pages, sketch.changed, sketch.since, _serial = head[6:]
        of_texts, of_pairs = 1 << (moduli & 15), 1 << (moduli >> 4)
        counts = self._frequent(frequent, flags // _TRIES)
        sketch.pairs = pairs.PairSample(self._first_pages(first_pages, of_pairs), of_pairs)
        sketch.families = self._families(families & 31, families >> 5)
        sketch.texts = texts.SiteTexts(counts, self._sample(of_texts))
        return sketch

    def _take(self, size: int) -> bytes:
        part = self._raw[self._at : self._at + size]
        if len(part) != size:
            raise _Broken
        self._at += size
        return part

    def _each(self, count: int, size: int, most: int) -> Iterator[bytes]:
        if count > most:
            raise _Broken
        return (self._take(size) for _ in range(count))

    def _frequent(self, count: int, tries: int) -> texts.FrequentTexts:
        counts, tried = dict[int, tuple[int, int]](), dict[int, bool]()
        _require(count <= texts.MOST_FREQUENT)
        for text, marked, error in _TEXT.iter_unpack(self._take(count * _TEXT.size)):
            number = marked % _TRIED
            _require(error <= number)
            counts[text] = number, error
            if marked & _TRIED:
                tried[text] = bool(marked & _SOFT)
        return texts.FrequentTexts(counts, tried, tries)

    def _first_pages(self, count: int, modulus: int) -> dict[int, pairs.FirstPage]:
        found = dict[int, pairs.FirstPage]()
        _require(count <= pairs.MOST_PAIRS and modulus <= pairs.LARGEST_MODULUS)
        packed = self._take(count * _PAIR.size)
        for low, high, text, text_high, value in _PAIR.iter_unpack(packed):
            found[low | high << 16] = pairs.FirstPage(text | text_high << 16, value)
        _require(not any(map((modulus - 1).__and__, found)))
        return found

    def _families(self, count: int, names: int) -> FamilyTable:
        found = [_unpack_family(p) for p in self._each(count, _FAMILY.size, MOST_FAMILIES)]
        _require(names <= _MOST_NAMES)
        for _ in range(names):
            index, length = self._take(2)
            label = self._take(length)
            _require(index < len(found) and _LABEL.fullmatch(label) is not None)
            found[index].label = label.decode()
        return FamilyTable(found)

    def _sample(self, modulus: int) -> texts.TextSample:
        rest = self._raw[self._at :]
        whole, left = divmod(len(rest), _SAMPLE_BYTES)
        _require(not left and whole <= texts.MOST_TEXTS and modulus <= texts.LARGEST_MODULUS)
        numbers = struct.unpack(f"<{whole}I", rest)
        found = {number & 0xFFFFFF: number >> 24 for number in numbers}
        _require(not any(map((modulus - 1).__and__, found)))
        return texts.TextSample(found, modulus)


def _require(condition: bool) -> None:  # noqa: FBT001  one condition, said at the call
    if not condition:
        raise _Broken


def _log2(modulus: int) -> int:
    return modulus.bit_length() - 1


def _named(families: FamilyTable) -> list[tuple[int, bytes]]:
    """Return the names that are kept, each with the place of its family."""
    wanted = [(n, each.label.encode()) for n, each in enumerate(families) if not each.is_plain]
    return [(n, label[:LABEL_BYTES]) for n, label in wanted if label][:_MOST_NAMES]


def _pack_frequent(frequent: texts.FrequentTexts) -> Iterator[bytes]:
    for text, (count, error) in frequent.counts.items():
        tried = frequent.tried.get(text)
        marks = 0 if tried is None else _TRIED | tried * _SOFT
        yield _TEXT.pack(text, count | marks, error)


def _pack_pair(pair: tuple[int, pairs.FirstPage]) -> bytes:
    key, (text, value) = pair
    return _PAIR.pack(key & 0xFFFF, key >> 16, text & 0xFFFF, text >> 16, value)


def _pack_sample(sample: texts.TextSample) -> bytes:
    numbers = [text | address << 24 for text, address in sample.texts.items()]
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _pack_family(family: Family) -> bytes:
    counters = (getattr(family.counts, name) for name in YIELD_FIELDS)
    verdict = (
        family.state
        | (_DROPPED if family.is_dropped else 0)
        | (_CONFIRMED if family.is_confirmed else 0)
        | family.missing * _MISSING
        | family.releases * _RELEASES
    )
    return _FAMILY.pack(family.key, *counters, family.eq, family.ne, verdict)


def _unpack_family(part: bytes) -> Family:
    key, *counters, eq, ne, verdict = _FAMILY.unpack(part)
    state, releases = verdict % _DROPPED, verdict // _RELEASES
    _require(state <= FamilyState.REFUSED and releases <= MOST_RELEASES)
    return Family(
        key=key,
        counts=YieldCounts(*counters),
        eq=eq,
        ne=ne,
        state=FamilyState(state),
        is_dropped=bool(verdict & _DROPPED),
        is_confirmed=bool(verdict & _CONFIRMED),
        missing=verdict % _RELEASES // _MISSING,
        releases=releases,
    )
