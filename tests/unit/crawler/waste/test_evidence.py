"""Votes of pages: which pages vote, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from crawling.page.guard_notes import GuardNotes
from crawling.page.page import Page
from crawling.quality.page_text import signature_of
from crawling.quality.traits import Traits
from crawling.waste.evidence import evidence_of, may_vote
from crawlstream.model.crawl import Entry, Profile
from crawlstream_frontier.waste.last_band import last_of
from crawlstream_frontier.waste.votes import PageVote
from support.crawler.leases import lease

URL = "http://a.example/list?page=2"


def _page(*, profile: dict[str, Any] | None = None, **entry: Any) -> Page:
    asked = Entry(url=URL, **entry)
    page = Page(lease(entry=asked, profile=Profile(**profile or {})), "id", status=200)
    page.is_watched = True
    page.traits = Traits(signature_of(["a text"], URL))
    return page


def _vote(page: Page, is_of_site: Callable[[str], bool]) -> PageVote:
    return evidence_of(page, is_of_site).vote()


@pytest.mark.parametrize(
    "profile",
    [{"headers": {"A": "b"}}, {"cookie": "a=b"}, {"cookies": {"a": "b"}}, {"useragent": "x"}],
)
def test_pages_of_crawls_with_own_requests_do_not_vote(profile: dict[str, Any]) -> None:
    """They may be shown something else than others."""
    assert may_vote(_page())
    assert not may_vote(_page(profile=profile))


@pytest.mark.parametrize(
    "entry",
    [{"method": "POST"}, {"body": b"x"}, {"headers": {"A": "b"}}, {"cookies": {"a": "b"}}],
)
def test_pages_of_other_requests_do_not_vote(entry: dict[str, Any]) -> None:
    """The address alone does not say what they are."""
    assert not may_vote(_page(**entry))


def test_pages_that_are_not_watched_do_not_vote() -> None:
    """The mode of their crawl is off."""
    page = _page()
    page.is_watched = False
    assert not may_vote(page)


def test_a_vote_has_the_text_and_the_parent_of_its_own_site() -> None:
    """A page that another site links to gives that one no credit."""
    page = _page(parent_url="http://a.example/")
    vote = _vote(page, lambda url: url == "http://a.example/")
    assert vote.text == Traits(signature_of(["a text"], URL)).text
    assert vote.parent is not None
    assert vote.is_there
    assert {pair.family for pair in vote.pairs} == {"host", "?page"}
    assert _vote(page, lambda _: False).parent is None


def test_a_page_without_text_says_so() -> None:
    """Its text may be made by scripts."""
    page = _page()
    page.status, page.traits = 404, None
    vote = _vote(page, lambda _: True)
    assert (vote.text, vote.is_there) == (None, False)


def _of_last(profile: dict[str, Any] | None = None, **entry: Any) -> Page:
    page = _page(profile={"maxdepth": 9, **(profile or {})}, **entry)
    page.guard, page.lease = GuardNotes(), replace(page.lease, priority=last_of(0))
    return page


def test_pages_of_the_last_band_speak_against_their_family() -> None:
    """Links that any crawl would leave out do not matter."""
    page = _of_last()
    page.filtered.update({"duplicate": 9, "domain": 1, "guard_parameter": 2})
    assert _vote(page, lambda _: True).from_last
    page.lease = replace(page.lease, priority=0)
    assert not _vote(page, lambda _: True).from_last


@pytest.mark.parametrize(
    ("profile", "entry", "filtered"),
    [
        ({"max_pages": 1000}, {}, ""),
        ({"domain_max_pages": 1000}, {}, ""),
        ({}, {"depth": 9}, ""),
        ({}, {}, "regex"),
        ({}, {}, "nofollow"),
        ({}, {}, "rule"),
    ],
)
def test_a_crawl_that_does_not_follow_all_links_speaks_against_no_family(
    profile: dict[str, Any], entry: dict[str, Any], filtered: str
) -> None:
    """Other crawls may find new pages behind what it leaves out."""
    page = _of_last(profile, **entry)
    page.filtered.update([filtered] if filtered else [])
    assert not _vote(page, lambda _: True).from_last
