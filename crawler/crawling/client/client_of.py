"""The client of one worker, by its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from scrapy import Request
from scrapy.http import Response

from crawling.client.http_client import HttpClient
from crawling.client.libcurl import PLAIN, Libcurl
from crawling.net.address_guard import GuardedResolver
from crawling.page.page import Page
from crawling.parts import Parts

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class FetchClient(Protocol):
    """Client that downloads: libcurl or a browser."""

    async def fetch(self, request: Request, page: Page) -> Response:
        """Send one request by the grant of its page."""
        ...

    def close(self) -> None:
        """Close all connections; no request may be in flight."""
        ...


def client_of(crawler: Crawler, resolver: GuardedResolver, libcurl: Libcurl = PLAIN) -> HttpClient:
    """A client for the spider of a crawler, which is open."""
    settings, spider, parts = crawler.settings, crawler.spider, Parts.of(crawler)
    bind = settings.get("DOWNLOAD_BIND_ADDRESS")
    return HttpClient(
        parts.leases,
        resolver,
        timeout_s=getattr(spider, "download_timeout", settings.getfloat("DOWNLOAD_TIMEOUT")),
        most_bytes=getattr(spider, "download_maxsize", settings.getint("DOWNLOAD_MAXSIZE")),
        verifies=settings["CRAWLSTREAM"].download_verify_certificates,
        bind=(bind, 0) if isinstance(bind, str) else bind,
        fails_on_data_loss=settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS"),
        routes=parts.routes,
        signatures=parts.signatures,
        payments=parts.payments,
        libcurl=libcurl,
    )
