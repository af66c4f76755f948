"""A client that asks for each page with the TLS profile of its request or pool."""

from __future__ import annotations

from collections.abc import Callable

from scrapy import Request
from scrapy.http import Response

from crawling.client.ask import place_of
from crawling.client.client_of import Client
from crawling.egress.routes import Routes
from crawling.egress.tls import TlsChoice, is_named
from crawling.failures import TransferFailed
from crawling.page.page import Page
from crawlstream.model.egress.tls import BROWSERS, DEFAULT


class ProfiledClient:
    """Has the profile chosen; the client below it goes by ``page.tls``."""

    def __init__(
        self, plain: Client, routes: Routes, tls: TlsChoice, browsers: Callable[[], Client]
    ) -> None:
        """``browsers`` is asked once, if ever: for the client that greets as they do."""
        self._plain = plain
        self._browsers = browsers
        self._browser: Client | None = None
        self._routes = routes
        self._tls = tls

    async def fetch(self, request: Request, page: Page) -> Response:
        """Send one request; GrantExpired, AddressRefused, or why no response came."""
        host, port = place_of(request.url)
        page.tls = None
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

    def _client_for(self, profile: str) -> Client:
        if profile not in BROWSERS:
            return self._plain
        if self._browser is None:
            self._browser = self._browsers()
        return self._browser

    def close(self) -> None:
        """End all connections; nothing may be under way."""
        self._plain.close()
        if self._browser:
            self._browser.close()
