"""Links of a page as the waste guard sorts them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawling.links.by_verdict import by_verdict
from crawling.links.children import Children, Outlinks
from crawling.page.guard_notes import GuardNotes
from crawling.page.page import Page
from crawling.quality.address_parts import host_hash
from crawling.waste.decisions import LinkDecision, decide
from crawlstream.model.url import host_of
from crawlstream_frontier.waste.families import FamilyState, family_hash
from crawlstream_frontier.waste.last_band import is_last, last_of
from crawlstream_frontier.waste.verdicts import SiteVerdicts
from support.pages import answer, page_at

VERDICTS = SiteVerdicts(
    host_hash("a.example"),
    {family_hash("?sort"): FamilyState.REFUSED, family_hash("?view"): FamilyState.LAST},
    {family_hash("?sid"): 16},
)
OPEN, LAST = "http://a.example/p", "http://a.example/c?view=1"
REFUSED = "http://a.example/c?sort=1"
WITH_ID = "http://a.example/p/1?sid=1"


def _page() -> Page:
    page = page_at()
    page.guard = GuardNotes()
    return page


def _judge(url: str) -> LinkDecision:
    return decide(url, VERDICTS, "a.example") if host_of(url) == "a.example" else LinkDecision(url)


def test_links_are_followed_put_last_and_refused() -> None:
    """Links to other sites stay as they are."""
    page = _page()
    other = "http://b.example/c?sort=1"
    links = Outlinks([REFUSED, OPEN, WITH_ID, LAST, other], {"regex": 1}, "other")
    found = list(by_verdict(links, page, _judge))
    assert found == [
        (False, replace(links, urls=[OPEN, "http://a.example/p/1", other])),
        (True, replace(links, urls=[LAST])),
    ]
    assert page.guard
    assert page.guard.of_result() == {"refused": {"guard_parameter": 1}, "last": 1}
    assert page.guard.left_out == {REFUSED}
    assert page.guard.of_site("a.example") == {"guard_parameter a.example ?sort": 1}
    assert page.filtered == {"guard_parameter": 1}


def test_versions_stay_with_their_links() -> None:
    """A sitemap names when each page was changed."""
    links = Outlinks([LAST, OPEN, LAST + "2"], versions=["1", "2", "3"])
    found = dict(by_verdict(links, _page(), _judge))
    assert (found[False].versions, found[True].versions) == (["2"], ["1", "3"])


def test_links_of_a_sitemap_go_last_at_most() -> None:
    """The site itself names them, so they are fetched as they are."""
    page = _page()
    found = dict(by_verdict(Outlinks([REFUSED, WITH_ID]), page, _judge, is_listed=True))
    assert (found[True].urls, found[False].urls) == ([REFUSED], [WITH_ID])
    assert page.guard
    assert page.guard.of_result() == {"last": 1}
    assert not page.filtered


def test_links_that_lead_nowhere_are_counted_where_they_are_followed() -> None:
    """The guard has no opinion on them."""
    links = Outlinks(["mailto:x@a.example", "http://a.example:x/"])
    assert [part.urls for _, part in by_verdict(links, _page(), _judge)] == [links.urls]


@pytest.mark.parametrize("own", [0, -40, 60])
def test_children_of_the_last_band_return_to_the_order_of_their_depth(own: int) -> None:
    """A page that waits until nothing else does may lead to pages that need not wait."""
    page = _page()
    page.lease = replace(page.lease, priority=last_of(own))
    children = Children(page)
    children.follow([OPEN], answer(page))
    children.follow([LAST], answer(page), is_last=True)
    ordinary, last = (group.priority for group in children.groups)
    assert abs(ordinary - (own - 10)) <= 50
    assert is_last(last)


def test_without_the_guard_priorities_have_their_whole_range() -> None:
    """Children of a page with a very low priority are lower still."""
    page = page_at()
    page.lease = replace(page.lease, priority=-7_900)
    children = Children(page)
    children.follow([OPEN], answer(page))
    assert children.groups[0].priority == -7_910
    page.guard = GuardNotes()
    page.lease = replace(page.lease, priority=-6_995)
    children = Children(page)
    children.follow([OPEN], answer(page))
    assert children.groups[0].priority == -7_000
