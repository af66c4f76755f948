"""Votes that wait in a crawler: bounded, and told in time."""

from __future__ import annotations

import pytest

from crawling.waste import ballots
from crawling.waste.ballots import MOST_OF_SITE, Ballot, Ballots, SiteName
from crawlstream_frontier.waste.votes import PageVote, SitePlace

VOTE = PageVote(place=SitePlace(1, ("/a/*",)))
SITE = SiteName(0, "a.example")


def _named(number: int) -> SiteName:
    return SiteName(0, f"{number}.example")


def test_a_site_is_due_with_16_votes() -> None:
    """Small sites are never told of: there is nothing to learn."""
    found = Ballots(lambda _: None)
    for _ in range(15):
        found.add(SITE, VOTE, 0)
    assert list(found.due(1e9)) == []
    found.add(SITE, VOTE, 0)
    assert list(found.due(0)) == [SITE]
    assert len(found.take(SITE)) == 16
    assert list(found.due(1e9)) == []


def test_a_known_site_is_due_with_8_votes_after_10_seconds() -> None:
    """The seconds begin with the first vote that waits."""
    found = Ballots(lambda _: None)
    found.of(SITE).raw = b"sketch"
    for n in range(8):
        found.add(SITE, VOTE, 100 + n)
    assert list(found.due(109)) == []
    assert list(found.due(110)) == [SITE]


def test_votes_of_a_site_are_bounded() -> None:
    """While Redis is unavailable, a fast site fills no memory."""
    found = Ballots(lambda _: None)
    for _ in range(1000):
        found.add(SITE, VOTE, 0)
    assert len(found.take(SITE)) == MOST_OF_SITE


@pytest.mark.parametrize("limit", ["MOST_SITES", "_MOST_VOTES"])
def test_sites_that_voted_longest_ago_are_forgotten(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither sites nor votes grow without end."""
    monkeypatch.setattr(ballots, limit, 10)
    gone: list[Ballot] = []
    found = Ballots(gone.append)
    for n in range(100):
        found.add(_named(n), VOTE, 0)
    assert len(found) in {10, 11}
    assert len(gone) == 100 - len(found)
    assert found.take(_named(0)) == []
    assert found.take(_named(99)) == [VOTE]
