"""Pages as a crawler process holds them, made for tests."""

from __future__ import annotations

from typing import Any

from scrapy.http import HtmlResponse, Response

from crawling.lease.leases import Leases
from crawling.page.page import Page
from crawlstream.model.crawl import CrawlKey, Entry, Lease, Profile


def page_at(
    url: str = "http://a.example/page", *, profile: Profile | None = None, **entry: Any
) -> Page:
    """A page just granted."""
    lease = Lease(
        token="1-1",
        crawl=CrawlKey("link", "app", "crawl"),
        run=1,
        domain="a.example",
        priority=5,
        entry=Entry(url=url, **entry),
        profile=profile or Profile(),
        retries=0,
        issued_at=0,
    )
    return Leases(1, lambda: None).admit(lease)


def answer(page: Page, status: int = 200, body: bytes = b"", **headers: Any) -> Response:
    """Return the response of its server; ``set_cookie=[...]`` stands for the header Set-Cookie."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HtmlResponse(page.lease.entry.url, status=status, headers=named, body=body)
