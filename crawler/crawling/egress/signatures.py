"""Signatures of a worker's requests, for whatever sends them: libcurl, Scrapy's client, a browser.

Each sending has its own signature: a retry, the next proxy, each hop of a redirect. Nothing is
stored, and no request goes on unsigned. With signing on, the names that a signature uses belong to
the cluster: what crawls and spiders set under them is left out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog
from scrapy import Request

from crawling.metrics import HEADERS_LEFT_OUT, SIGNED
from crawling.page.page import Page
from crawlstream.boot.settings import Settings
from crawlstream.model.crawl import CrawlKey
from crawlstream.signing.keys import load_keys
from crawlstream.signing.signer import NAMES, Signer

_OURS = tuple(name.encode() for name in NAMES)
_OF_CRAWLERS = b"crawler-"
"""Beginning of headers by which crawlers and sites agree on prices."""
_CRAWLS_REMEMBERED = 1_000

log = structlog.get_logger()


class Signatures:
    """Signs requests with the first key of a cluster."""

    def __init__(self, signer: Signer, spider: str) -> None:
        self._signer = signer
        self._count = SIGNED.labels(spider)
        self._left_out = HEADERS_LEFT_OUT.labels(spider)
        self._logged: OrderedDict[tuple[CrawlKey, int], None] = OrderedDict()
        """Runs whose own headers were reported as left out."""

    @classmethod
    def of(cls, settings: Settings, spider: str) -> Signatures | None:
        """Return what signs a spider's requests, None without keys; ConfigError for a bad key."""
        if not (keys := load_keys(settings.signing_keys)):
            return None
        return cls(Signer(keys[0], settings.signature_terms), spider)

    def headers(
        self, page: Page, url: str, method: str = "GET", price: str = ""
    ) -> Mapping[str, str]:
        """Return the headers that sign one request of a page, which is about to leave."""
        page.signed = self._signer.keyid
        self._count.inc()
        return self._signer.headers(url, method, price)

    def lines(self, request: Request, page: Page, price: str = "") -> list[bytes]:
        """Return the same as lines for libcurl; take headers alike from the request."""
        self.leave_out(request, page)
        signed = self.headers(page, request.url, request.method, price)
        return [f"{name}: {value}".encode() for name, value in signed.items()]

    @contextmanager
    def on(self, request: Request, page: Page) -> Iterator[None]:
        """Have a request carry its signature for the length of the block, and nothing alike."""
        self.leave_out(request, page)
        signed = self.headers(page, request.url, request.method)
        request.headers.update(signed)
        try:
            yield
        finally:
            for name in signed:
                request.headers.pop(name, None)

    def leave_out(self, request: Request, page: Page) -> None:
        """Take headers from a request that only the cluster may set, and count them."""
        names = [name for name in dict.keys(request.headers) if is_ours(name)]
        for name in names:
            del request.headers[name]
        if names:
            self._left_out.inc(len(names))
            self._log_once(page, names)

    def _log_once(self, page: Page, names: list[bytes]) -> None:
        crawl, run = page.lease.crawl, page.lease.run
        if (crawl, run) in self._logged:
            return
        self._logged[crawl, run] = None
        if len(self._logged) > _CRAWLS_REMEMBERED:
            self._logged.popitem(last=False)
        listed = sorted(name.decode("latin-1") for name in names)
        log.warning("headers_left_out", crawlid=crawl.crawlid, appid=crawl.appid, headers=listed)


def is_ours(name: bytes) -> bool:
    """Return whether only the cluster may set a header."""
    lowered = name.lower()
    return lowered in _OURS or lowered.startswith(_OF_CRAWLERS)
