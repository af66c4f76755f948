"""Links of a page in a crawl with a host budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawling.links.children import Children
from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.effects import Links
from crawlstream_frontier.link_rules.host_budgets import LOWER, is_lower, lower
from crawlstream_frontier.waste.last_band import LOWEST, is_last
from support.pages import answer, page_at


def _links(
    origin: str | None = None,
    *,
    priority: int = 40,
    is_trusted: bool = False,
    budget: tuple[int, int] | None = (10, 5),
) -> list[Links]:
    page = page_at(profile=Profile(host_budget=budget), origin=origin)
    page.lease = replace(page.lease, priority=priority, is_trusted=is_trusted)
    children = Children(page)
    children.follow(["http://a.example/1", "http://b.example/1"], answer(page))
    children.add(Entry(url="http://b.example/3"), priority, counts=False)
    return [*children.groups]


@pytest.mark.parametrize(
    ("origin", "is_trusted", "standings"),
    [
        (None, False, ["- 10 5", "- 10 5"]),
        (None, True, ["+ 10 5", "12 10 5"]),
        ("in-0-1", False, ["s 10 5", "12 10 5"]),
    ],
)
def test_links_say_whether_their_domain_is_trusted(
    origin: str | None,
    is_trusted: bool,  # noqa: FBT001
    standings: list[str],
) -> None:
    """A bit to other domains; a seed says so to its own one. Targets of redirects say nothing."""
    found = [group.standing for group in _links(origin, is_trusted=is_trusted)]
    assert found == [*standings, ""]


def test_links_start_from_the_priority_that_the_page_would_have_had() -> None:
    """Multiples of ten; the target of a redirect waits as low as its page."""
    waits_lower = lower(40)
    found = [group.priority for group in _links(priority=waits_lower)]
    assert found == [30, 30, waits_lower]
    assert [group.priority for group in _links(priority=47)] == [30, 30, 47]


def test_links_of_other_crawls_say_nothing() -> None:
    """Nor is their priority rounded."""
    found = [(group.priority, group.standing) for group in _links(priority=47, budget=None)]
    assert found == [(37, ""), (37, ""), (47, "")]


def test_no_lower_priority_is_one_of_the_last_band() -> None:
    """Even after ten retries, for all priorities of a crawl with a host budget."""
    for priority in range(LOWEST, 8_001, 10):
        below = lower(priority)
        assert is_lower(below)
        assert not is_last(below - 100)
        assert below == priority - LOWER or priority < LOWEST + 100
