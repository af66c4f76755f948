"""A client that asks for each page with the TLS profile of its request or pool."""

from __future__ import annotations

from collections.abc import Callable

from scrapy import Request
from scrapy.http import Response

from crawling.client.client_of import FetchClient
from crawling.client.curl_request import place_of
from crawling.egress.routes import Routes
from crawling.egress.tls import TlsChoice, is_named
from crawling.failures import TransferFailed
from crawling.page.page import Page
from crawlstream.model.egress.tls import BROWSERS, DEFAULT


class ProfiledClient:
    """Has the profile chosen; the client below it goes by ``page.tls``."""

    def __init__(
        self,
        plain: FetchClient,
        routes: Routes,
        tls: TlsChoice,
        browser_of: Callable[[str], FetchClient],
    ) -> None:
        """``browser_of`` makes a client that greets as a profile says; asked once for each."""
        self._plain = plain
        self._browser_of = browser_of
        self._browsers: dict[str, FetchClient] = {}
        self._routes = routes
        self._tls = tls

    async def fetch(self, request: Request, page: Page) -> Response:
        """Send one request; GrantExpired, AddressRefused, or why no response came."""
        page.tls = None
        if self._routes.are_needless(page) and not is_named(page):
            return await self._plain.fetch(request, page)
        host, port = place_of(request.url)
        is_usual = not is_named(page) and not self._routes.is_proxied(page, host)
        if is_usual or not request.url.startswith("https:"):
            return await self._plain.fetch(request, page)
        pool = await self._routes.pool_for(page, host, port)
        profile = await self._tls.profile_for(page, pool)
        page.tls = None if profile == DEFAULT else profile
        try:
            return await self._client_for(profile).fetch(request, page)
        except TransferFailed as error:
            if error.reason == "tls":
                await self._tls.failed(page, pool, profile)
            raise

    def _client_for(self, profile: str) -> FetchClient:
        if profile not in BROWSERS:
            return self._plain
        if profile not in self._browsers:
            self._browsers[profile] = self._browser_of(profile)
        return self._browsers[profile]

    def close(self) -> None:
        """Close all connections; no request may be in flight."""
        self._plain.close()
        for browser in self._browsers.values():
            browser.close()
