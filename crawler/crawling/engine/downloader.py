"""Route requests that a middleware returns in place of a response through the frontier.

Scrapy would send them at once, without a grant. Here they are handled like the crawler's own
retries and redirects; :mod:`crawling.response.outcome` decides which of the two each is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.core.downloader import Downloader
from scrapy.http import Response

from crawling.failures import RequestReplaced
from crawling.lease.leases import Leases
from crawling.page.page import Page, Phase
from crawling.page.scrapy_request import PAGE
from crawling.parts import Parts
from crawlstream.errors import InvalidUrl

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class GrantedDownloader(Downloader):
    """Scrapy's downloader (``DOWNLOADER``) for requests of which each has its grant."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._deadlines = Parts.of(crawler).deadlines
        self._leases = Parts.of(crawler).leases
        self._pass_middlewares = self.middleware.download_async
        vars(self.middleware)["download_async"] = self._in_time

    async def _in_time(self, enqueue: Any, request: Request) -> Response | Request:
        """Through all middlewares; PageTimeout where one of them takes too long."""
        page: Page | None = request.meta.get(PAGE)
        if page is None:
            return await self._pass_middlewares(enqueue, request)

        async def noted(request: Request) -> Any:
            page.download_error = None
            try:
                return await enqueue(request)
            except Exception as error:
                page.download_error = error
                raise

        with self._deadlines.stretch(page):
            return await self._pass_middlewares(noted, request)

    def fetch(self, request: Request) -> Any:  # type: ignore[override]
        """A Deferred of the response, or of a request that the same grant may still be used for."""
        return super().fetch(request).addCallback(granted, request, self._leases)


def granted(result: Response | Request, request: Request, leases: Leases) -> Response | Request:
    """Return what a download has come to: a response, or a request that its grant still covers.

    RequestReplaced: a middleware wants a request that the grant does not cover. Its cause is the
    error of the download, if there was one.
    """
    page: Page | None = request.meta.get(PAGE)
    if page is None or isinstance(result, Response):
        return result
    if page.phase is not Phase.WAITING or not _is_covered(leases, page, result.url):
        raise RequestReplaced(result) from page.download_error
    return result.replace(
        callback=result.callback or request.callback,
        errback=request.errback,
        meta={**result.meta, PAGE: page},
    )


def _is_covered(leases: Leases, page: Page, url: str) -> bool:
    try:
        return leases.sites.covers(page.lease, url)
    except InvalidUrl:
        return False
