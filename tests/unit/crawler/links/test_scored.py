"""Links of a page in a crawl with a score."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scrapy import Request

from crawling.links.children import Children
from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.effects import FOUND, Links
from crawlstream_frontier.waste.last_band import last_of
from support.pages import answer, page_at


def _links(priority: int, score: str | None = "inlinks", *, change: int = 0) -> list[Links]:
    page = page_at(profile=Profile(score=score))
    page.lease = replace(page.lease, priority=priority)
    children = Children(page)
    children.follow(["http://a.example/1"], answer(page), change=change)
    children.request(Request("http://a.example/2", priority=5), answer(page), change)
    children.add(Entry(url="http://a.example/3"), priority, counts=False)
    return [*children.groups]


@pytest.mark.parametrize("priority", [40, 40 + 507, 40 + 508, 43])
def test_links_start_from_the_priority_before_a_promotion(priority: int) -> None:
    """They are multiples of ten, and counted; the target of a redirect stays where its page was."""
    plain, redirected = _links(priority)
    assert (plain.priority, plain.linked, len(plain.entries)) == (30, FOUND, 2)
    assert (redirected.priority, redirected.linked, redirected.counts) == (priority, 0, False)


def test_changes_of_rules_add_up() -> None:
    """On top of the priority before the promotion."""
    assert _links(40 + 508, change=200)[0].priority == 230


def test_links_of_other_crawls_are_not_counted() -> None:
    """Nor is their priority rounded."""
    found = [(group.priority, group.linked) for group in _links(547, None)]
    assert found == [(537, 0), (542, 0), (547, 0)]


def test_links_of_the_last_band_are_counted_by_the_frontier_alone() -> None:
    """The crawler marks them like others; the frontier promotes nothing there."""
    page = page_at(profile=Profile(score="inlinks"))
    children = Children(page)
    children.follow(["http://a.example/1"], answer(page), is_last=True)
    (group,) = children.groups
    assert (group.priority, group.linked) == (last_of(-10), FOUND)
