"""Traps: paths that no sane site has are not followed, and counted."""

from __future__ import annotations

import pytest

from crawling.links.traps import Traps


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://a.example/", None),
        ("http://a.example/2020/01/01/01/", None),
        ("http://a.example/a/b/a/b/a/b/c", None),
        ("http://a.example/a/b/a/b/a/b/a", "path_repeats"),
        ("http://a.example/a//a//a/a/", "path_repeats"),
        ("http://a.example/" + "/".join(map(str, range(20))), None),
        ("http://a.example/" + "/".join(map(str, range(20))) + "/", None),
        ("http://a.example/" + "/".join(map(str, range(21))), "path_depth"),
        ("http://a.example/?" + "/a" * 50, None),
        ("http://a.example/a/a/a?/a/a", None),
    ],
)
def test_a_path_that_piles_up_is_refused(url: str, reason: str | None) -> None:
    """More than 20 segments, or one of them more than three times; queries are not paths."""
    assert Traps(max_segments=20, max_repeats=3).refuses(url) == reason


@pytest.mark.parametrize(
    ("traps", "reason"),
    [(Traps(0, 0), None), (Traps(0, 3), "path_repeats"), (Traps(20, 0), "path_depth")],
)
def test_each_sign_can_be_switched_off(traps: Traps, reason: str | None) -> None:
    """Switches each sign off with 0."""
    assert traps.refuses("http://a.example" + "/a" * 30) == reason
