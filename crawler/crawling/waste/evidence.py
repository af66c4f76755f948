"""Evidence of pages that have ended, from which votes are made when they are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

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


class PageEvidence(NamedTuple):
    """A page that has ended. Its vote takes more room, and is made sooner with others at once."""

    url: str
    parent_url: str | None
    """Page that linked to it; None for a seed, and for a page of another site."""
    is_there: bool
    text: int | None
    from_last: bool

    def vote(self) -> PageVote:
        """Return the vote of the page; its fields say what these mean."""
        return PageVote(
            place=place_of(self.url),
            parent=place_of(self.parent_url) if self.parent_url else None,
            is_there=self.is_there,
            text=self.text,
            address=address_hash(self.url),
            pairs=pairs_of(self.url),
            from_last=self.from_last,
        )


def evidence_of(page: Page, is_of_site: Callable[[str], bool]) -> PageEvidence:
    """Return the evidence of a page; ``is_of_site``: whether a URL is of its site."""
    entry, status = page.lease.entry, page.status
    parent_url = entry.parent_url
    return PageEvidence(
        entry.url,
        parent_url if parent_url and is_of_site(parent_url) else None,
        200 <= status < 300,
        page.traits.text if page.traits else None,
        is_last(page.lease.priority) and _has_led_on(page),
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
