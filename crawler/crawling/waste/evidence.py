"""Votes of pages that have ended."""

from __future__ import annotations

from collections.abc import Callable

from crawling.page.page import Page
from crawling.quality.address_parts import pairs_of, place_of
from crawlstream.model.web.last_band import is_last
from crawlstream_frontier.waste.votes import PageVote


def may_vote(page: Page) -> bool:
    """Return whether a page shows what its site shows to everybody.

    Pages of crawls with a login, or with headers of their own, may differ from those of others.
    """
    entry, profile = page.lease.entry, page.lease.profile
    is_plain = entry.method == "GET" and not (entry.body or entry.headers or entry.cookies)
    has_own = profile.headers or profile.cookie or profile.cookies or profile.useragent
    return page.is_watched and is_plain and not has_own


def vote_of(page: Page, is_of_site: Callable[[str], bool]) -> PageVote:
    """Return the vote of a page that has ended; ``is_of_site``: whether a URL is of its site."""
    url, parent = page.lease.entry.url, page.lease.entry.parent_url
    text = page.traits.text if page.traits else None
    return PageVote(
        place=place_of(url),
        parent=place_of(parent) if parent and is_of_site(parent) else None,
        is_there=200 <= page.status < 300,
        text=text.text if text else None,
        pairs=pairs_of(url),
        from_last=page.guard is not None and is_last(page.lease.priority),
    )
