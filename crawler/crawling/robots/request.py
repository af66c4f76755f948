"""The request for a robots.txt, or for another file about a whole site."""

from __future__ import annotations

from typing import Final

from crawling.page.page import Page
from crawling.page.scrapy_request import PAGE, AddressRequest, agent_of
from crawling.robots.robots_book import MAX_BYTES

ROBOTS: Final = "crawlstream_robots"
"""Key in ``request.meta`` that marks a request for such a file."""
_DOWNLOAD_MAX_BYTES = 4 * MAX_BYTES
"""Bytes of a robots.txt; the host of a larger one is taken to forbid everything."""


def robots_request(
    url: str, page: Page, agent: str, most_bytes: int = _DOWNLOAD_MAX_BYTES
) -> AddressRequest:
    """Return the request for a file; ``agent``: where the crawl of the page names none."""
    return AddressRequest(
        url,
        headers={"User-Agent": agent_of(page.lease, agent)},
        meta={PAGE: page, ROBOTS: True, "download_maxsize": most_bytes},
        priority=page.lease.priority,
        dont_filter=True,
    )
