"""URLs that no page links to, made of two that were seen."""

from __future__ import annotations

import pytest

from crawling.waste.made_up import beside, made_up, nonsense

SITE = "http://a.example"


@pytest.mark.parametrize(
    ("family", "first", "latest", "found"),
    [
        ("/events/#/#", "/events/2026/1", "/events/2027/2", "/events/2026/2"),
        ("/a/*/*", "/a/x/y", "/a/z/y", "/a/z/y-word"),
        ("/events/#", "/events/3", "/events/12", "/events/19007"),
        ("/a/*", "/a/story-3-of-7", "/a/story-3-of-7", "/a/story-10007-of-14007"),
        ("/a/*", "/a/red", "/a/blue%20sky/", "/a/blue%20sky-word/"),
        ("?view", "/c?view=1", "/c?a=1&view=2&b", "/c?a=1&view=word&b"),
    ],
)
def test_a_neighbour_is_made_up(family: str, first: str, latest: str, found: str) -> None:
    """Paths are mixed where two segments differ; numbers are far beyond; words are nonsense."""
    assert made_up(family, SITE + first, SITE + latest, "word") == SITE + found


@pytest.mark.parametrize(
    ("family", "latest"),
    [("?view", "/c?a=1"), ("?view", "/c?view"), ("/b/*", "/a/red"), ("host", "/a/red")],
)
def test_none_is_made_up_of_another_family(family: str, latest: str) -> None:
    """Pages belong to several families, and names may be cut."""
    assert made_up(family, SITE + latest, SITE + latest, "word") is None


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("/a/red?x=1", "/a/red-word"),
        ("/a/red/", "/a/red-word/"),
        ("/a/red.html", "/a/red-word.html"),
        ("/.hidden", "/.hidden-word"),
        ("/?page=3", "/-word"),
        ("", "/-word"),
    ],
)
def test_a_page_beside_another_has_a_word_at_the_end_of_its_path(url: str, found: str) -> None:
    """It keeps the file extension, by which servers choose who answers, and loses the query."""
    assert beside(SITE + url, "word") == SITE + found


def test_nonsense_is_another_word_each_time() -> None:
    """A site that has learned one could answer for it."""
    words = {nonsense() for _ in range(20)}
    assert len(words) == 20
    assert {len(word) for word in words} == {9}
