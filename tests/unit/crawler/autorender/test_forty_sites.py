"""Automatic rendering on forty small sites as frameworks build them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from crawling.autorender.record import RenderVerdict
from support.autorender.small_sites import SmallSite, small_sites
from support.autorender.walk import Walk, crawl

LEARNING = 20
"""Pages of a site after which its verdicts must be right."""


@pytest.fixture(scope="module")
def walks() -> Sequence[tuple[SmallSite, Walk]]:
    """Crawl all sites."""
    return [(site, crawl(site)) for site in small_sites(0)]


def test_verdicts_are_right_after_twenty_pages(walks: Sequence[tuple[SmallSite, Walk]]) -> None:
    """At most 2 % are wrong, on sites of each kind."""
    for kind in ("shell", "hydrated", "plain"):
        late = [
            (site.pages[fate.path].needs_browser, fate.verdict)
            for site, walk in walks
            if site.kind == kind
            for fate in walk.fates[LEARNING:]
        ]
        wrong = [
            verdict
            for needs_browser, verdict in late
            if verdict is (RenderVerdict.PLAIN if needs_browser else RenderVerdict.BROWSER)
        ]
        assert len(wrong) <= 0.02 * len(late), kind


def test_sites_are_asked_for_few_documents_twice(walks: Sequence[tuple[SmallSite, Walk]]) -> None:
    """At most 15 % of all pages, and at most 20 % of a site's; most browsers are needed."""
    pages = sum(len(walk.fates) for _, walk in walks)
    assert sum(walk.documents for _, walk in walks) <= 1.15 * pages
    assert all(walk.documents <= 1.2 * len(walk.fates) for _, walk in walks)
    rendered = sum(fate.why is not None for _, walk in walks for fate in walk.fates)
    needed = sum(page.needs_browser for site, _ in walks for page in site.pages.values())
    assert rendered <= 1.3 * needed


def test_hardly_a_page_that_needs_a_browser_goes_without(
    walks: Sequence[tuple[SmallSite, Walk]],
) -> None:
    """At most 2 % of them; all pages of shells with a usual root are rendered."""
    lost = {
        site.name: sum(
            site.pages[fate.path].needs_browser and fate.why is None for fate in walk.fates
        )
        for site, walk in walks
    }
    needed = sum(page.needs_browser for site, _ in walks for page in site.pages.values())
    assert sum(lost.values()) <= 0.02 * needed
    assert {name.rpartition("-")[0] for name in lost if lost[name]} <= {"behind-plain"}
    assert all(len(walk.fates) == len(site.pages) for site, walk in walks)
