"""Sketches of texts: texts that are nearly alike have a band in common, most others have none."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlstream_extract.minhash import Sketches

TURNS = 60


def share(similarity: float, bands: int) -> float:
    """Return the share of pairs of texts with this Jaccard similarity that share a band."""
    dice = random.Random(17)
    size = 200
    common = round(2 * size * similarity / (1 + similarity))
    sketches, found = Sketches(1, bands), 0
    for _ in range(TURNS):
        words = [f"w{number}" for number in dice.sample(range(1_000_000), 2 * size - common)]
        one, other = (sketches.of(" ".join(each)) for each in (words[:size], words[-size:]))
        assert one is not None
        assert other is not None
        found += any(a == b for a, b in zip(one, other, strict=True))
    return found / TURNS


@pytest.mark.parametrize(
    ("bands", "alike", "other"), [(8, 0.97, 0.6), (16, 0.9, 0.4), (32, 0.7, 0.1)]
)
def test_similar_texts_share_a_band(bands: int, alike: float, other: float) -> None:
    """Nearly all pairs above the threshold of the bands, and nearly none below it."""
    assert share(alike, bands) > 0.95
    assert share(other, bands) < 0.1


@given(st.text(max_size=200), st.sampled_from([8, 16, 32]), st.integers(1, 10))
def test_any_text_has_a_sketch_or_no_words(text: str, bands: int, words: int) -> None:
    """Returns integers that every reader of JSON keeps, the same ones each time."""
    found = Sketches(words, bands).of(text)
    assert found == Sketches(words, bands).of(f" {text}\n")
    if found is not None:
        assert len(found) == bands
        assert all(0 <= value < 1 << 53 for value in found)
    assert Sketches(words, bands).of(" .-!\n") is None


def test_languages_without_spaces_have_words() -> None:
    """A sentence that is added changes few bands of a text in Chinese or Thai."""
    chance = random.Random(5)
    for first, last in ((0x4E00, 0x9FFF), (0x0E01, 0x0E2E)):
        text = "".join(chr(chance.randint(first, last)) for _ in range(600))
        one, other = (Sketches(3, 16).of(each) for each in (text, text + chr(first) * 5))
        assert one is not None
        assert other is not None
        assert sum(a == b for a, b in zip(one, other, strict=True)) > 8


def test_values_of_a_version_stay_what_they_are() -> None:
    """If this changes, raise the version in ``spec/text_stages.py``: files keep both."""
    assert (
        Sketches(3, 16).of("The lamp gives light to the whole room, and it is made of brass.")
        == GOLDEN
    )


GOLDEN = [
    *(6094548209151431, 3245829253881000, 133418986463860, 3757896043924513, 5929696624674675),
    *(1697318392054719, 7311079433300687, 8495453032022225, 4602268159194750, 8196297953502202),
    *(1466345576605565, 5892733865250774, 6302813613044209, 8946652133409879, 292549325929216),
    2405707102352569,
]
