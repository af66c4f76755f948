"""Links of a page by the change of their priority, as the rules of their crawl have it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat

from crawling.links.children import Outlinks
from crawling.links.scope import rules_of
from crawling.page.page import Page
from crawlstream.errors import InvalidUrl
from crawlstream.model.web.address import without_fragment


def by_priority(links: Outlinks, page: Page) -> Iterator[tuple[int, Outlinks]]:
    """Yield the links with each change of the priority; count those that a rule leaves out."""
    if not page.lease.profile.priorities:
        yield 0, links
        return
    places: dict[int, list[int]] = {}
    for place, (url, text) in enumerate(zip(links.urls, links.texts or repeat(""), strict=False)):
        add = change_of(page, url, text)
        if add is not None:
            places.setdefault(add, []).append(place)
    for add, chosen in places.items():
        urls = [links.urls[place] for place in chosen]
        versions = [links.versions[place] for place in chosen] if links.versions else ()
        yield add, replace(links, urls=urls, versions=versions, texts=())


def change_of(page: Page, url: str, text: str = "") -> int | None:
    """Return the change of the priority of a link; None, and count it, if it is left out."""
    rules = rules_of(page.lease.profile).priorities
    if rules is None:
        return 0
    try:
        rule = rules.find(without_fragment(url), page.lease.entry.depth + 1, text)
    except InvalidUrl:
        return 0  # It leads nowhere, which is counted where it is followed.
    if rule is None:
        return 0
    if rule.add is None:
        page.filtered["rule"] += 1
        return None
    return rule.add
