"""Way of pages through this process: the fetch lane, or Scrapy's engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
from scrapy import Request
from scrapy.http import Response

from crawling.client.client_of import FetchClient, client_of
from crawling.client.profiled import ProfiledClient
from crawling.egress.routes import Routes
from crawling.egress.tls import TlsChoice, is_named
from crawling.gateway.gateway import Gateway
from crawling.lane.eligibility import why_engine
from crawling.lane.lane import Lane
from crawling.lease.expired import GrantExpired
from crawling.net.address_guard import GuardedResolver
from crawling.page.page import Page
from crawling.page.scrapy_request import PAGE
from crawling.parts import Parts
from crawlstream.model.url import host_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

Renders = Callable[[FetchClient], FetchClient]
"""Makes a client with a browser from a client without one."""

log = structlog.get_logger()


class Way:
    """Choice between lane and engine, made when the spider starts and all user code is known."""

    def __init__(self, crawler: Crawler, routes: Routes, tls: TlsChoice) -> None:
        self._crawler = crawler
        self._routes = routes
        self._tls = tls
        self._renders: Renders | None = None
        self._lane: Lane | None = None
        self._client: FetchClient | None = None
        """Client for pages that Scrapy's client cannot fetch, if there is no lane."""
        self._gateway: Gateway | None = None

    def render_by(self, renders: Renders) -> None:
        """Fetch pages with a browser; call this before :meth:`choose`."""
        self._renders = renders

    def choose(self) -> None:
        """Choose the lane or the engine, and log the choice."""
        reason = why_engine(self._crawler)
        if reason:
            log.info("fetch", way="engine", reason=reason)
        else:
            self._lane = Lane(self._crawler, self._new_client())
            log.info("fetch", way="lane")

    def _new_client(self) -> FetchClient:
        plain = client_of(self._crawler, self.resolver())
        client = ProfiledClient(plain, self._routes, self._tls, self._new_browser_client)
        return self._renders(client) if self._renders else client

    def _new_browser_client(self, profile: str) -> FetchClient:
        from crawling.tls.multi import (  # noqa: PLC0415  an extra, installed where it is wanted
            libcurl_of,
        )

        return client_of(self._crawler, self.resolver(), libcurl_of(profile))

    def resolver(self) -> GuardedResolver:
        """Return the address guard of this process."""
        from twisted.internet import reactor  # noqa: PLC0415  an import would install another

        return GuardedResolver.in_force(self._crawler, reactor)

    @property
    def gateway(self) -> Gateway:
        """Return the gateway for programs with connections of their own; the caller starts it."""
        if self._gateway is None:
            leases = Parts.of(self._crawler).leases
            bind = self._crawler.settings.get("DOWNLOAD_BIND_ADDRESS")
            where = (bind, 0) if isinstance(bind, str) else bind
            self._gateway = Gateway(leases, self.resolver(), self._routes, bind=where)
        return self._gateway

    def lane_for(self, page: Page) -> Lane | None:
        """Return the lane if a page takes it.

        A page takes the lane only for its first attempt: Scrapy's client accepts some servers that
        libcurl refuses (a line in the head that is not a header, TLS without secure renegotiation).
        With a proxy, a TLS profile, a purse or a browser, all attempts take the lane; of an
        archive, two do.
        """
        if self._renders or not page.lease.retries or is_named(page):
            return self._lane
        if page.lease.profile.purse or page.keeps_bytes:
            return self._lane
        is_proxied = self._routes.is_proxied(page, host_of(page.lease.entry.url))
        return self._lane if is_proxied else None

    async def fetch_by_proxy(self, request: Request, page: Page) -> Response:
        """Download a page that Scrapy's client cannot, for the engine; as ``FetchClient.fetch``."""
        if self._lane:
            return await self._lane.fetch_only(request, page)
        if self._client is None:
            self._client = self._new_client()
        return await self._client.fetch(request, page)

    async def fetch(self, request: Request) -> Response:
        """Download a further file (robots.txt) with the grant of a page; GrantExpired."""
        engine = self._crawler.engine
        if not engine.running:
            raise GrantExpired
        if lane := self.lane_for(request.meta[PAGE]):
            return await lane.fetch(request)
        return await engine.download_async(request)

    @property
    def has_room(self) -> bool:
        """Return whether this process can take more pages."""
        if self._crawler.engine.needs_backout():
            return False
        return self._lane is None or not self._lane.is_full

    async def finish(self) -> None:
        """Wait for the pages in the lane."""
        if self._lane:
            await self._lane.finish()

    def close(self) -> None:
        """Close the connections; no page may be in flight."""
        if self._lane:
            self._lane.close()
        if self._client:
            self._client.close()
        if self._gateway:
            self._gateway.close()
