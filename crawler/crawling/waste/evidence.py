"""Votes of pages that have ended."""

from __future__ import annotations

from collections.abc import Callable

from crawling.page.page import Page
from crawling.quality.address_parts import address_hash, pairs_of, place_of
from crawlstream_frontier.waste.last_band import is_last
from crawlstream_frontier.waste.votes import PageVote

_HARMLESS = frozenset(
    {
        "domain",
        "duplicate",
        "extension",
        "guard_host",
        "guard_parameter",
        "guard_path",
        "path_depth",
        "path_repeats",
        "scheme",
        "url",
    }
)
"""Reasons for which other crawls leave out the same links, too, or a link adds no page."""


def may_vote(page: Page) -> bool:
    """Return whether a page is watched, and shows what its site shows to everybody."""
    return page.is_watched and is_plain(page)


def is_plain(page: Page) -> bool:
    """Return whether a page is requested like anybody would.

    Pages of crawls with a login, or with headers of their own, may differ from those of others.
    """
    entry, profile = page.lease.entry, page.lease.profile
    if entry.method != "GET" or entry.body or entry.headers or entry.cookies:
        return False
    return not (profile.headers or profile.cookie or profile.cookies or profile.useragent)


def vote_of(page: Page, is_of_site: Callable[[str], bool]) -> PageVote:
    """Return the vote of a page that has ended; ``is_of_site``: whether a URL is of its site."""
    url, parent = page.lease.entry.url, page.lease.entry.parent_url
    text = page.traits.text if page.traits else None
    return PageVote(
        place=place_of(url),
        parent=place_of(parent) if parent and is_of_site(parent) else None,
        is_there=200 <= page.status < 300,
        text=text.text if text else None,
        address=address_hash(url),
        pairs=pairs_of(url),
        from_last=is_last(page.lease.priority) and _has_led_on(page),
    )


def _has_led_on(page: Page) -> bool:
    """Return whether all that a page led to was followed, as by a crawl without limits.

    A family that leads to nothing in this crawl may lead to new pages in others.
    """
    entry, profile = page.lease.entry, page.lease.profile
    is_limited = (
        profile.max_pages
        or profile.domain_max_pages
        or profile.domain_max_bytes
        or profile.domain_max_failed_share
        or profile.parameters
    )
    return (
        page.guard is not None
        and not is_limited
        and entry.depth < profile.maxdepth
        and page.filtered.keys() <= _HARMLESS
    )
