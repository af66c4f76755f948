"""Links of a page by the verdicts of the waste guard: followed, put last, and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from crawling.links.children import Outlinks, looked_up
from crawling.page.page import Page
from crawling.waste.decisions import LinkDecision
from crawlstream.errors import InvalidUrl

Judge = Callable[[str], LinkDecision]
"""Returns the decision on an address without fragment."""


def by_verdict(
    links: Outlinks, page: Page, judge: Judge, *, is_listed: bool = False
) -> Iterator[tuple[bool, Outlinks]]:
    """Yield the links that are followed, then with True those that are put last; count the others.

    ``is_listed``: a sitemap or feed names them, so they stay as they are, and none is refused.
    """
    places: tuple[list[int], list[int]] = ([], [])
    urls = list(links.urls)
    for place, link in enumerate(urls):
        decision = _decide(link, judge)
        if is_listed:
            is_last = decision.is_last or decision.refused is not None
            decision = LinkDecision(link, is_last=is_last)
        if decision.refused:
            _leave_out(page, decision._replace(url=link))
        else:
            urls[place] = decision.url
            places[decision.is_last].append(place)
    if page.guard:
        page.guard.last += len(places[True])
    for is_last, chosen in zip((False, True), places, strict=True):
        if chosen:
            yield is_last, _chosen(links, urls, chosen)


def _decide(link: str, judge: Judge) -> LinkDecision:
    try:
        url, _, _ = looked_up(link)
    except InvalidUrl:
        return LinkDecision(link)  # It leads nowhere, which is counted where it is followed.
    return judge(url)


def _leave_out(page: Page, decision: LinkDecision) -> None:
    reason = decision.refused or ""
    page.filtered[reason] += 1
    if page.guard:
        page.guard.refused[reason] += 1
        page.guard.families[reason, decision.family] += 1
        page.guard.left_out.add(decision.url)


def _chosen(links: Outlinks, urls: list[str], places: list[int]) -> Outlinks:
    versions = [links.versions[place] for place in places] if links.versions else ()
    return replace(links, urls=[urls[place] for place in places], versions=versions, texts=())
