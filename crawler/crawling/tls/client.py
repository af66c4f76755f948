"""From a request to its response, with the TLS of a browser.

What :class:`crawling.client.http_client.HttpClient` is for the other profiles: the same gate in the
same order, and the same is told of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from curl_cffi import CurlError
from scrapy import Request
from scrapy.exceptions import DownloadTimeoutError
from scrapy.http import Response

from crawling.client.answer import download_latency, response_of
from crawling.client.ask import place_of
from crawling.client.attempts import Attempts
from crawling.client.clock import Clock
from crawling.egress.route import Route
from crawling.egress.routes import Routes
from crawling.failures import TransferFailed, reason_of
from crawling.gateway.gateway import Gateway
from crawling.lease.holds import Holds
from crawling.net import trust
from crawling.page.page import Page
from crawling.parts import Parts
from crawling.response.site_feedback import reported
from crawling.tls.connection import Connection, Connections, Multi
from crawling.tls.ending import Ending
from crawling.tls.exchange import Exchange
from crawling.tls.targets import TARGETS

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class _Ask(NamedTuple):
    """A request by one route."""

    request: Request
    page: Page
    route: Route | None
    place: tuple[str, int]
    proves: bool
    """Whether the certificate must hold."""


def browser_client_of(crawler: Crawler, gateway: Callable[[], Gateway]) -> BrowserTlsClient:
    """A client for the spider of a crawler, which is open."""
    settings, spider, parts = crawler.settings, crawler.spider, Parts.of(crawler)
    return BrowserTlsClient(
        parts.holds,
        gateway,
        parts.routes,
        timeout_s=getattr(spider, "download_timeout", settings.getfloat("DOWNLOAD_TIMEOUT")),
        most_bytes=getattr(spider, "download_maxsize", settings.getint("DOWNLOAD_MAXSIZE")),
        verifies=settings["CRAWLSTREAM"].download_verify_certificates,
        fails_on_data_loss=settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS"),
    )


class BrowserTlsClient:
    """curl_cffi behind the gate."""

    def __init__(
        self,
        holds: Holds,
        gateway: Callable[[], Gateway],
        routes: Routes,
        *,
        timeout_s: float,
        most_bytes: int,
        verifies: bool | None,
        fails_on_data_loss: bool = True,
    ) -> None:
        """``timeout_s`` and ``most_bytes`` hold where a request's meta says nothing else."""
        self._holds = holds
        self._gateway = gateway
        self._routes = routes
        self._timeout_s = timeout_s
        self._most_bytes = most_bytes
        self._verifies = verifies
        self._fails_on_data_loss = fails_on_data_loss
        self._loop = asyncio.get_running_loop()
        self._connections: Connections | None = None
        self._starting = asyncio.Lock()

    async def fetch(self, request: Request, page: Page) -> Response:
        """Send one request; GrantExpired, AddressRefused, or why no response came."""
        self._holds.set_out(page)
        place = place_of(request.url)
        pool = await self._routes.pool_for(page, *place)
        async with self._starting:
            await self._gateway().start()
        send = partial(self._send, request, page)
        download = Attempts(self._routes).run(pool, page, send) if pool else send(None)
        return await reported(download, page, self._holds)

    def close(self) -> None:
        """End all connections; nothing may be under way."""
        if self._connections:
            self._connections.close()

    async def _send(self, request: Request, page: Page, route: Route | None) -> Response:
        proves = trust.must_prove(request, page.hold, self._verifies)
        ask = _Ask(request, page, route, place_of(request.url), proves)
        if self._connections is None:
            self._connections = Connections()
        # A password that is another makes another route, and so another connection.
        by = route and (route.proxy, route.credentials, route.pool.dns)
        key = page.tls, by, ask.place, proves
        connection = self._connections.take(key, partial(self._connect, ask))
        is_kept = False
        try:
            response = await self._exchange(connection, ask)
            is_kept = request.method == "GET" and not request.body
            return response
        finally:
            if is_kept:
                self._connections.keep(key, connection)
            else:
                connection.close()

    def _connect(self, ask: _Ask, multi: Multi) -> Connection:
        assert ask.page.tls is not None
        target = TARGETS[ask.page.tls]
        return Connection(multi, self._gateway(), ask.route, target=target, proves=ask.proves)

    async def _exchange(self, connection: Connection, ask: _Ask) -> Response:
        meta = ask.request.meta
        most = meta.get("download_maxsize", self._most_bytes)
        exchange = Exchange(ask.page, self._holds, most=most, is_proxied=ask.route is not None)
        was_used, is_lossy = connection.is_used, False
        try:
            await self._run(connection, ask.request, exchange)
        except (CurlError, DownloadTimeoutError) as error:
            ending = Ending(
                exchange=exchange,
                way_out=connection.way_out,
                was_used=was_used,
                proves=ask.proves,
            )
            failure = ending.failure(error)
            fails = meta.get("download_fail_on_dataloss", self._fails_on_data_loss)
            is_lossy = exchange.has_head and reason_of(failure) == "connection_lost" and not fails
            if not is_lossy:
                raise failure from None
        return self._answer(connection, exchange, ask, is_lossy=is_lossy)

    async def _run(self, connection: Connection, request: Request, exchange: Exchange) -> None:
        timeout_s = request.meta.get("download_timeout") or self._timeout_s
        over = self._loop.create_future()

        def end() -> None:
            if not over.done():
                over.set_result(None)

        clock = Clock(self._loop, timeout_s, end)
        exchange.pause = partial(self._pause, connection, exchange.page, clock)
        transfer = connection.start(request, exchange)
        try:
            await asyncio.wait((transfer, over), return_when=asyncio.FIRST_COMPLETED)
            if not transfer.done():
                raise DownloadTimeoutError(f"no complete response within {timeout_s} s")
            transfer.result()
        finally:
            clock.stop()
            connection.stop()

    def _pause(self, connection: Connection, page: Page, clock: Clock) -> None:
        """Read no more until there is room for bodies."""
        way_out = connection.way_out
        if way_out.is_paused:
            return
        way_out.pause()
        clock.turn_over()

        def go_on() -> None:
            if way_out.is_paused:
                way_out.go_on()
                clock.turn_over()

        self._holds.body_budget.wait(page, go_on)

    def _answer(
        self, connection: Connection, exchange: Exchange, ask: _Ask, *, is_lossy: bool
    ) -> Response:
        if not exchange.is_sent:
            raise RuntimeError(f"libcurl has sent a request without asking: {ask.request.url}")
        if not exchange.has_head:
            raise TransferFailed("connection_lost", "the connection broke in the head")
        latency = download_latency(ask.page.left_at, exchange.head_at)
        ask.request.meta["download_latency"] = latency
        flags = ["dataloss"] if is_lossy else []
        body = b"".join(exchange.body)
        address = "" if ask.route else connection.way_out.address
        return response_of(ask.request, exchange.head, body, address, flags=flags)
