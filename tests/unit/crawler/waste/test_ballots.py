"""Votes that wait in a crawler: bounded, and told in time."""

from __future__ import annotations

import pytest

from crawling.quality.address_parts import host_hash
from crawling.waste import ballots
from crawling.waste.ballots import MOST_OF_SITE, Ballot, Ballots, SiteName
from crawlstream_frontier.waste.families import FamilyState, family_hash
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.verdicts import SiteVerdicts
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
    """Forgets the sites that voted longest ago, so that memory is bounded."""
    monkeypatch.setattr(ballots, limit, 10)
    gone: list[Ballot] = []
    found = Ballots(gone.append)
    for n in range(100):
        found.add(_named(n), VOTE, 0)
    assert len(found) in {10, 11}
    assert len(gone) == 100 - len(found)
    assert found.take(_named(0)) == []
    assert found.take(_named(99)) == [VOTE]


def _of_last() -> PageVote:
    return VOTE._replace(from_last=True)


def test_votes_of_the_last_band_wait_for_pages_that_it_leads_to() -> None:
    """Three rounds of pages, each leased after the one before, and two seconds."""
    found = Ballots(lambda _: None)
    ballot = found.of(SITE)
    for _ in range(16):
        found.add(SITE, _of_last(), 100)
    for now, admitted_at in [(101, 100.5), (102, 100.9), (103, 102.5)]:
        ballot.note_end(admitted_at, now)
        assert list(found.due(1e9)) == []
    ballot.note_end(103.5, 104)
    assert list(found.due(101.9)) == []
    assert list(found.due(104)) == [SITE]
    assert len(found.take(SITE)) == 16


def test_held_votes_are_bounded_and_forgotten_with_their_site() -> None:
    """A site whose last page has ended lets none of them count."""
    found = Ballots(lambda _: None)
    for _ in range(1000):
        found.add(SITE, _of_last(), 0)
    assert found.of(SITE).size == MOST_OF_SITE


def test_a_site_whose_verdicts_are_acted_on_is_due_with_each_vote() -> None:
    """Another crawler may be about to refuse what this vote speaks for."""
    found = Ballots(lambda _: None)
    ballot = found.of(SITE)
    ballot.verdicts = SiteVerdicts(1, {2: FamilyState.LAST}, {})
    found.add(SITE, VOTE, 100)
    assert list(found.due(100)) == []
    ballot.note_guarded("http://a.example/", 200, 100)
    assert list(found.due(100)) == [SITE]


def test_sketches_are_read_every_10_seconds_while_verdicts_are_acted_on() -> None:
    """Crawls that only watch read none."""
    found = Ballots(lambda _: None)
    ballot = found.of(SITE)
    assert list(found.unread(0)) == []
    ballot.note_guarded("http://a.example/", 200, 0)
    assert list(found.unread(1)) == [SITE]
    ballot.see(None, Sketch(), 1)
    ballot.note_guarded("http://a.example/", 200, 9)
    assert list(found.unread(10.9)) == []
    assert list(found.unread(11)) == [SITE]


def test_the_main_host_is_one_whose_pages_exist() -> None:
    """Either of those with and without www. may be the only one that answers."""
    ballot, sketch = Ballot(), Sketch()
    sketch.merge([VOTE._replace(place=SitePlace(host_hash("a.example"), ()))], 0)
    ballot.note_guarded("http://www.a.example/", 200, 0)
    assert ballot.main_host == ""
    ballot.see(b"sketch", sketch, 0)
    for url, status in [("http://a.example/", 404), ("http://b.a.example/", 200)]:
        ballot.note_guarded(url, status, 0)
        assert ballot.main_host == ""
    ballot.note_guarded("http://www.a.example/", 200, 0)
    assert ballot.main_host == "www.a.example"


def test_verdicts_of_persons_are_known_of_sites_to_come() -> None:
    """They hold without a sketch, also on a path, and end when they are taken back."""
    found, path = Ballots(lambda _: None), family_hash("/c/#")
    early = found.of(SITE)
    found.heed({SITE.domain: {path: "refuse", 7: "allow"}})
    late = found.of(SITE._replace(partition=9))
    for ballot in (early, late):
        verdicts = ballot.verdicts
        assert verdicts is not None
        worst = verdicts.worst(SitePlace(host_hash("a.example"), ("/c/#",)))
        assert worst == (FamilyState.REFUSED, "/c/#")
        assert verdicts.is_sure("/c/#")
    found.heed({})
    assert early.verdicts is None
