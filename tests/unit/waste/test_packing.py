"""The format of a sketch: bounded, whole, and safe to read whatever the bytes are."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlstream_frontier.waste.families import (
    Family,
    FamilyState,
    FamilyTable,
    YieldCounts,
    family_hash,
)
from crawlstream_frontier.waste.packing import MOST_BYTES, SERIAL, pack, serial_of, unpack
from crawlstream_frontier.waste.pairs import FirstPage, PairSample
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.texts import FrequentTexts, SiteTexts, TextSample
from crawlstream_frontier.waste.votes import (
    CrawlBegan,
    PagePair,
    PageVote,
    SitePlace,
    TextAnswer,
    Vote,
)

NOW = 1_700_000_000


def _full() -> Sketch:
    """Return the largest sketch."""
    sketch = Sketch()
    sketch.pages = sketch.since = sketch.changed = 0xFFFFFFFF
    sketch.main, sketch.has_two_hosts = 0xFFFF, True
    texts = {n << 16: (0x3FFF, 0x3FFF) for n in range(16)}
    counts = FrequentTexts(texts, dict.fromkeys(texts, True), 15)
    sketch.runs = [0xFFFFFFFF] * 4
    sketch.texts = SiteTexts(counts, TextSample({n * 64: n for n in range(188)}, 64))
    sketch.pairs = PairSample({n * 64: FirstPage(0xFFFFFF, 255) for n in range(64)}, 64)
    names = [f"?{'n' * 40}{n}" for n in range(20)]
    sketch.families = FamilyTable(
        [
            Family(
                key=family_hash(name),
                label=name[:30],
                counts=YieldCounts(*[0xFFFF] * 7),
                eq=0xFFFF,
                ne=0xFFFF,
                state=FamilyState.REFUSED,
                is_dropped=True,
                is_confirmed=True,
                missing=3,
                releases=4,
            )
            for name in names
        ]
    )
    return sketch


def _votes(seed: int, count: int) -> list[PageVote]:
    """Return random votes with some repeated texts and many families."""
    rng = random.Random(seed)
    places = [SitePlace(rng.choice((1, 1, 2)), (f"?p{n}",)) for n in range(30)]
    return [
        PageVote(
            place=rng.choice(places),
            parent=rng.choice([*places, None]),
            is_there=rng.random() < 0.9,
            text=rng.choice((None, rng.randrange(40), rng.randrange(1 << 32))),
            address=rng.randrange(256),
            pairs=(PagePair(f"?p{n % 30}", rng.randrange(100), rng.randrange(3)),),
            from_last=rng.random() < 0.3,
        )
        for n in range(count)
    ]


def _answers(seed: int) -> list[Vote]:
    """Return runs that began, and answers about frequent texts."""
    rng = random.Random(seed)
    texts = [TextAnswer(text, rng.random() < 0.5) for text in range(40)]
    return [*texts, *(CrawlBegan(rng.randrange(1 << 32)) for _ in range(rng.randrange(6)))]


def test_largest_sketch_has_2040_bytes() -> None:
    """The bound of the format is the sum of its parts, and such a sketch is read back."""
    raw = pack(_full(), 7)
    assert len(raw) == MOST_BYTES
    assert pack(unpack(raw), 7) == raw


@given(st.integers(0, 1 << 30), st.integers(0, 3000))
def test_a_sketch_is_read_back_as_it_was(seed: int, count: int) -> None:
    """Packing loses nothing but the names of families that are open."""
    sketch = Sketch()
    sketch.merge([*_votes(seed, count), *_answers(seed), *_votes(seed + 1, 9)], NOW)
    raw = pack(sketch, 5)
    assert len(raw) <= MOST_BYTES
    assert pack(unpack(raw), 5) == raw


@given(st.binary(max_size=3000))
def test_any_bytes_are_a_sketch(raw: bytes) -> None:
    """Bytes that do not parse are an empty sketch; all others can be packed again."""
    assert len(pack(unpack(raw), 0)) <= MOST_BYTES


@given(st.data())
def test_changed_bytes_do_no_harm(data: st.DataObject) -> None:
    """A sketch with changed or missing bytes takes votes, and stays within its bound."""
    sketch = Sketch()
    sketch.merge(_votes(1, 600), NOW)
    raw = bytearray(pack(sketch, 1))
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    broken = unpack(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    broken.merge(_votes(2, 100), NOW)
    assert len(pack(broken, 2)) <= MOST_BYTES


@pytest.mark.parametrize(
    ("at", "value"),
    [
        pytest.param(0, 2, id="another version"),
        pytest.param(1, 5 << 1, id="too many runs"),
        pytest.param(2, 0x07, id="modulus of texts above 64"),
        pytest.param(2, 0x70, id="modulus of pairs above 64"),
        pytest.param(3, 17, id="too many frequent texts"),
        pytest.param(4, 65, id="too many pairs"),
        pytest.param(5, 21, id="too many families"),
        pytest.param(5, 20 | 7 << 5, id="too many names"),
        pytest.param(5, 20 | 5 << 5, id="bytes that are no text"),
        pytest.param(40 + 128 + 448 + 22 + 1, 2, id="unknown bit of a family"),
        pytest.param(40 + 128 + 448 + 22, 62 + 64, id="too many releases"),
        pytest.param(40 + 128 + 448 + 22, 3, id="unknown state of a family"),
        pytest.param(40 + 128 + 448 + 480, 20, id="name of a family that is not there"),
        pytest.param(40 + 128 + 448 + 480 + 2, 10, id="control character in a name"),
        pytest.param(40 + 4, 0, id="error above its count"),
        pytest.param(MOST_BYTES - 4, 1, id="text outside of the sample"),
    ],
)
def test_what_does_not_parse_is_empty(at: int, value: int) -> None:
    """A wrong byte in the largest sketch makes it an empty one."""
    raw = bytearray(pack(_full(), 1))
    raw[at] = value
    assert pack(unpack(bytes(raw)), 0) == pack(Sketch(), 0)


def test_serial_is_where_the_script_looks() -> None:
    """The script compares the bytes 20 to 23."""
    raw = pack(Sketch(), 0x01020304)
    assert raw[SERIAL] == b"\x04\x03\x02\x01"
    assert serial_of(raw) == 0x01020304
    assert serial_of(None) == serial_of(b"short") == 0
