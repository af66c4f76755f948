"""Places and pairs of addresses: which pages of a site are compared."""

from __future__ import annotations

import pytest

from crawling.quality.address_parts import pairs_of, place_of
from crawlstream_frontier.waste.votes import PagePair

SITE = "http://example.com"


def _keys(url: str) -> dict[str, tuple[int, int]]:
    return {pair.family: (pair.key, pair.value) for pair in pairs_of(url)}


def test_pages_that_differ_in_one_parameter_are_a_pair() -> None:
    """They have the same key for it, and another value; other parameters differ in their keys."""
    one, other = _keys(f"{SITE}/a?s=1&t=5"), _keys(f"{SITE}/a?t=5&s=2")
    assert one["?s"][0] == other["?s"][0]
    assert one["?s"][1] != other["?s"][1]
    assert one["?t"][0] != other["?t"][0]


@pytest.mark.parametrize(
    "other", [f"{SITE}/b?s=1", "http://b.example.com/a?s=1", f"{SITE}/a?s=1&u"]
)
def test_pages_that_differ_elsewhere_are_no_pair(other: str) -> None:
    """Path, host and other parameters are part of the key."""
    assert _keys(f"{SITE}/a?s=1")["?s"][0] != _keys(other)["?s"][0]


def test_hosts_are_compared_with_their_scheme_and_without_www() -> None:
    """Pages at two hosts are a pair; http and https are not."""
    one, other = _keys(f"{SITE}/a?s=1")["host"], _keys("http://b.example.com/a?s=1")["host"]
    assert one[0] == other[0]
    assert one[1] != other[1]
    assert _keys("http://www.example.com/a?s=1")["host"] == one
    assert _keys("https://example.com/a?s=1")["host"][0] != one[0]


def test_pairs_of_a_url_are_bounded() -> None:
    """Eight of a thousand parameters are compared."""
    url = f"{SITE}/?" + "&".join(f"p{n}=1" for n in range(1000))
    assert len(pairs_of(url)) == 9


def test_a_place_has_the_host_apart() -> None:
    """Families do not depend on the main host, which is known when votes are merged."""
    main, other = place_of(f"{SITE}/a/b"), place_of("http://b.example.com/a/b")
    assert main.families_at(main.host) == ("/a/*",) == other.families
    assert other.families_at(main.host) == ("host",)
    assert place_of("http://b.example.com/a?s=1").families_at(main.host) == ("?s", "host")
    assert place_of("http://www.example.com/a/b") == main


def test_a_pair_fits_the_format() -> None:
    """Keys have 24 bits, values 8."""
    for n in range(200):
        for pair in pairs_of(f"{SITE}/{n}?s={n}"):
            assert isinstance(pair, PagePair)
            assert pair.key < 1 << 24
            assert pair.value < 1 << 8
