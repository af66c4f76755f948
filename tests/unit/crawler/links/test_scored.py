"""Links of a page in a crawl with a score."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scrapy import Request

from crawling.links.children import Children
from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.effects import FOUND, FOUND_EARLY, Links
from crawlstream_frontier.link_rules.promotion import ACROSS, WITHIN
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


@pytest.mark.parametrize(
    ("priority", "linked"),
    [(40, FOUND), (40 + WITHIN, FOUND_EARLY), (40 + ACROSS, FOUND_EARLY), (43, FOUND)],
)
def test_links_start_from_the_priority_before_a_promotion(priority: int, linked: int) -> None:
    """They are multiples of ten, and counted; the target of a redirect stays where its page was.

    Those of a promoted page are marked.
    """
    found = [(group.priority, group.linked, len(group.entries)) for group in _links(priority)]
    assert found == [(30, linked, 2), (priority, 0, 1)]


def test_changes_of_rules_add_up() -> None:
    """Adds changes of rules to the priority before the promotion."""
    assert _links(40 + ACROSS, change=200)[0].priority == 230


def test_links_of_other_crawls_are_not_counted() -> None:
    """Neither counts links of crawls without a score nor rounds their priority."""
    found = [(group.priority, group.linked) for group in _links(57, None)]
    assert found == [(47, 0), (52, 0), (57, 0)]


def test_links_of_the_last_band_are_counted_by_the_frontier_alone() -> None:
    """The crawler marks them like others; the frontier promotes nothing there."""
    page = page_at(profile=Profile(score="inlinks"))
    children = Children(page)
    children.follow(["http://a.example/1"], answer(page), is_last=True)
    (group,) = children.groups
    assert (group.priority, group.linked) == (last_of(-10), FOUND)
