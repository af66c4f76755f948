"""The last gate before a request leaves: paid for, allowed to go there, and in time.

What Scrapy's handler does not show is when the bytes are written, and politeness is counted from
that moment. Twisted asks its connection pool for a connection and writes in the same turn, so
:class:`_Gate` stands in for the pool.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit  # noqa: TID251  proxies are not addresses
from weakref import WeakSet, ref

from scrapy import Request
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.exceptions import DownloadCancelledError, DownloadTimeoutError
from scrapy.http import Response
from twisted.web._newclient import BODY, DONE
from twisted.web.client import HTTPConnectionPool
from twisted.web.iweb import IPolicyForHTTPS

from crawling.egress.tls import is_named
from crawling.lease.expired import GrantExpired
from crawling.lease.leases import Leases
from crawling.net import trust
from crawling.net.address_guard import GuardedResolver
from crawling.net.connections import KeptConnections, allow_files
from crawling.net.endpoints import Straight
from crawling.net.trust import Trust
from crawling.page.body_budget import LARGE, BodyBudget
from crawling.page.page import Page
from crawling.page.scrapy_request import PAGE
from crawling.parts import Parts
from crawling.response.codings import is_status_enough, undecoded
from crawling.response.media_type import typed
from crawling.response.site_feedback import reported
from crawling.robots.request import ROBOTS
from crawlstream.model.url import host_of, port_of
from crawlstream.model.web.address import without_fragment

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawlstream.boot.addresses import Address
    from crawlstream.boot.settings import Settings

_ORIGIN = re.compile(r"[a-z]+://[^/?]*")
_PORTS = {"http": 80, "https": 443}
_LONGEST_HEAD = 256 * 1024
"""Bytes from a request to the first of the response's body, as browsers have it."""

_LONGEST_PAUSE_S = 300.0
"""Maximum wait of a download for others: half the time that a worker may hold a page."""


class NotGranted(Exception):
    """No grant of the frontier pays for this request: yield it, and it will be crawled."""


class Download:
    """Request in flight; its clock stops while others must be received first."""

    __slots__ = (
        "_left_s",
        "_transport",
        "addresses",
        "clock",
        "head",
        "must_prove",
        "page",
        "target",
    )

    def __init__(self, page: Page, url: str, *, must_prove: bool) -> None:
        self.page: Page | None = page
        """None when it is over: its connection may be kept, and the page shall not."""
        self.target = _target_of(url)
        """Path and query as they are sent."""
        self.must_prove = must_prove
        """True if the server's certificate must hold."""
        self.addresses: Sequence[Address] = ()
        """The only ones that it may be sent to, where limits of machines apply; empty: any."""
        self.clock: asyncio.Timeout | None = None
        self.head: Any = None
        """Twisted's response, which may be without its body."""
        self._transport: Any = None
        self._left_s = 0.0

    def pause(self, transport: Any) -> None:
        """Read no more from its connection."""
        if self.clock is not None and self._transport is None and not self.clock.expired():
            self._transport = transport
            self._left_s = (self.clock.when() or 0) - asyncio.get_running_loop().time()
            self.clock.reschedule(None)
            transport.pauseProducing()

    def came(self, head: Any) -> Any:
        """Keep the head of the response; what is done with it is done by Scrapy."""
        self.head = head
        return head

    def go_on(self) -> None:
        """Read again, if it is not over."""
        transport, self._transport = self._transport, None
        if self.clock is not None and transport is not None:
            self.clock.reschedule(asyncio.get_running_loop().time() + self._left_s)
            transport.resumeProducing()


_leaving: ContextVar[Download] = ContextVar("leaving")


class GatedHandler(HTTP11DownloadHandler):
    """Scrapy's handler for http and https behind the gate."""

    lazy = False

    def __init__(self, crawler: Crawler) -> None:
        from twisted.internet import reactor  # noqa: PLC0415  an import would install another

        super().__init__(crawler)
        self._parts = Parts.of(crawler)
        self._leases = self._parts.leases
        self._timeout_s = crawler.settings.getfloat("DOWNLOAD_TIMEOUT")
        settings: Settings = crawler.settings["CRAWLSTREAM"]
        self._verifies = settings.download_verify_certificates
        self._contextFactory = cast(
            IPolicyForHTTPS, Trust(self._contextFactory, lambda: _leaving.get().must_prove)
        )
        self._resolver = GuardedResolver.in_force(crawler, reactor)
        # Private: Scrapy offers no other place for a pool; test_crawler_handler.py watches it.
        kept = KeptConnections(reactor, self._pool, allow_files())
        self._pool = cast(HTTPConnectionPool, _Gate(kept, self._resolver, self._leases))

    async def download_request(self, request: Request) -> Response:
        """Send one request; GrantExpired, AddressRefused, or what Scrapy's handler raises."""
        page: Page | None = request.meta.get(PAGE)
        if page is None:
            raise NotGranted(f"{request} was not granted by the frontier")
        is_proxied = await self._parts.routes.pool_for(page, *next(_places(request)))
        keeps_bytes = page.keeps_bytes and not request.meta.get("proxy")
        if is_proxied or self._parts.renders or is_named(page) or keeps_bytes:
            return await self._by_proxy(request, page)
        self._leases.set_out(page, request.url)
        places = [await self._resolver.resolve(host, port) for host, port in _places(request)]
        must_prove = trust.must_prove(request, page.lease, self._verifies)
        download = Download(page, request.url, must_prove=must_prove)
        if len(places) == 1 and self._leases.machines.count(page):
            download.addresses = self._leases.machines.covered(page, places[0])
        signatures = self._parts.signatures
        with signatures.on(request, page) if signatures else nullcontext():
            return await reported(self._in_time(request, download), page, self._leases)

    async def _by_proxy(self, request: Request, page: Page) -> Response:
        """Download with libcurl (through proxies, or with a TLS profile), or with a browser."""
        if request.meta.get("proxy"):
            raise TypeError(
                'a middleware has set meta["proxy"] on a page that is for a pool of proxies, for a'
                " TLS profile or for a browser"
            )
        return await self._parts.fetch_by_proxy(request, page)

    async def _in_time(self, request: Request, download: Download) -> Response:
        """Download; DownloadTimeoutError when its own time, without its pauses, is over."""
        timeout_s = request.meta.get("download_timeout") or self._timeout_s
        request.meta["download_timeout"] = timeout_s + _LONGEST_PAUSE_S
        _leaving.set(download)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s) as download.clock:
                    return typed(await super().download_request(request))
        except DownloadCancelledError as problem:
            if found := _for_its_status(request, download.head, problem):
                return found
            raise
        finally:
            request.meta["download_timeout"] = timeout_s
            download.page = download.clock = None
        raise DownloadTimeoutError(f"no complete response within {timeout_s} s")


def _for_its_status(request: Request, head: Any, problem: Exception) -> Response | None:
    """Return a response whose body is too large, if its status says enough without."""
    if head is None or not is_status_enough(head.code, is_robots=ROBOTS in request.meta):
        return None
    headers = dict(head.headers.getAllRawHeaders())
    return undecoded(Response(request.url, head.code, headers), problem)


def _target_of(url: str) -> bytes:
    """Return path and query of a URL, with the ``?`` or ``;`` that has nothing behind it."""
    path = _ORIGIN.sub("", without_fragment(url), count=1)
    return (path if path.startswith("/") else f"/{path}").encode("ascii")


def _places(request: Request) -> Iterator[tuple[str, int]]:
    """Hosts and ports that a request reaches: its target, and a middleware's proxy on the way."""
    yield host_of(request.url), port_of(request.url)
    if proxy := request.meta.get("proxy"):
        url = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        yield url.hostname or "", url.port or _PORTS.get(url.scheme, 80)


def _after_pending_writes(call: Callable[[Page], None], page: Page) -> None:
    """Call when what was written now has reached the socket.

    Twisted writes in the loop's next round, after what that round finds to call; so the round
    after it is the first to be sure.
    """
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, call, page)


class _Gate:
    """Stands in for Twisted's HTTPConnectionPool, and sees each connection before its request."""

    persistent = True

    def __init__(self, pool: Any, resolver: GuardedResolver, leases: Leases) -> None:
        self._pool = pool
        self._resolver = resolver
        self._leases = leases
        self._shaken: WeakSet[Any] = WeakSet()

    def getConnection(self, key: Any, endpoint: Any) -> Any:  # noqa: N802  Twisted's name
        """A connection, made or kept; the request is written right after it is given."""
        download = _leaving.get()
        # A server that has proved nothing is not trusted later, on a connection that was kept.
        # A kept one may lead to another machine, too.
        key = (*key, download.must_prove, *download.addresses)
        way = Straight(endpoint, self._resolver, download.addresses)
        found = self._pool.getConnection(key, way)
        return found.addCallback(self._let_go, download, download.page, key[0])

    def _let_go(self, connection: Any, download: Download, page: Page, scheme: bytes) -> Any:
        connection.dataReceived = _Limits(connection, download, self._leases.body_budget)
        connection.request = partial(_watched_request, ref(connection), download, self._leases)
        try:
            self._leases.depart(page)
        except GrantExpired:
            connection.abort()
            raise
        if scheme != b"https" or connection in self._shaken:
            _after_pending_writes(self._leases.departed, page)
        # Else a handshake comes first; the response will show that the request has left.
        self._shaken.add(connection)
        return connection

    def closeCachedConnections(self) -> Any:  # noqa: N802  Twisted's name
        """End the kept connections."""
        return self._pool.closeCachedConnections()


def _watched_request(connection: ref[Any], download: Download, leases: Leases, request: Any) -> Any:
    """Send a request on a connection, as Twisted does it, and keep the head that comes.

    A request to a proxy names a whole URL; of others, Twisted has left out what is empty.
    """
    there: Any = connection()
    if request.uri.startswith(b"/"):
        request.uri = download.target

    def came(head: Any) -> Any:
        if download.page is not None:
            download.page.head_at = leases.clock()
        return download.came(head)

    return type(there).request(there, request).addCallback(came)


class _Limits:
    """Limits the input of a connection's parser, which would accept input without end."""

    def __init__(self, connection: Any, download: Download, body_budget: BodyBudget) -> None:
        # Weak: a circle would keep the connection until garbage is collected, which is seldom.
        self._connection = ref(connection)
        self._download = download
        self._body_budget = body_budget
        self._bytes = 0

    def __call__(self, data: bytes) -> None:
        """Twisted's ``dataReceived``."""
        connection = self._connection()
        if connection is None:
            return
        type(connection).dataReceived(connection, data)
        self._bytes += len(data)
        if self._bytes <= LARGE:
            return
        parser = connection._parser  # noqa: SLF001  as with the pool
        if parser is None:
            return
        if parser.state in {BODY, DONE}:
            self._weigh(connection.transport)
        elif self._bytes > _LONGEST_HEAD:
            connection.transport.abortConnection()

    def _weigh(self, transport: Any) -> None:
        page = self._download.page
        if page is not None and page.is_open:
            self._body_budget.weigh(page, self._bytes)
            if not self._body_budget.may_grow(page):
                self._download.pause(transport)
                self._body_budget.wait(page, self._download.go_on)
