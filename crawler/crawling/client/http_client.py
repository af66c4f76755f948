"""Download requests with libcurl, as :mod:`crawling.engine.download_handler` does for Scrapy.

Requests pass the same checks in the same order: grant, address, time; and report the same results.
Pages of a pool leave only through one of its proxies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pycurl
from scrapy import Request
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadTimeoutError,
)
from scrapy.http import Response

from crawling.client.answer import download_latency, for_its_status, response_of
from crawling.client.attempts import Attempts
from crawling.client.clock import Clock
from crawling.client.curl_request import pin, place_of, write
from crawling.client.libcurl import PLAIN, Libcurl
from crawling.client.line import Line, ProxyLines
from crawling.client.proxied import ProxiedTransfer, is_absolute, straight_to
from crawling.client.transfer import Transfer, TransferCount
from crawling.egress.blame import Blame, blame_in
from crawling.egress.payments import Payments
from crawling.egress.route import Route
from crawling.egress.routes import Routes
from crawling.egress.signatures import Signatures
from crawling.failures import ProxyTrouble, TransferFailed
from crawling.lease.cpu_fairness import BODY_S_PER_BYTE
from crawling.lease.leases import Leases
from crawling.net import trust
from crawling.net.address_guard import GuardedResolver, literal
from crawling.net.connections import allow_files
from crawling.page.page import Page
from crawling.response.site_feedback import reported
from crawling.robots.request import ROBOTS
from crawlstream.boot.addresses import Address, AddressRefused
from crawlstream.model.egress.tls import LEGACY
from crawlstream.model.result import AsSent


class _Ask(NamedTuple):
    """A request, and where it may go."""

    request: Request
    page: Page
    host: str
    port: int
    addresses: Sequence[Address]
    """Addresses of the site, checked."""
    price: str = ""
    """Price that this one sending offers; reserved for it."""

    def pins(self) -> list[str]:
        """For libcurl's memory of names."""
        is_name = literal(self.host) is None
        return [pin(self.host, self.port, self.addresses)] if is_name else []


class HttpClient:
    """libcurl behind the gate."""

    def __init__(  # noqa: PLR0913  all but the first two are keywords
        self,
        leases: Leases,
        resolver: GuardedResolver,
        *,
        timeout_s: float,
        most_bytes: int,
        verifies: bool | None,
        bind: tuple[str, int] | None = None,
        fails_on_data_loss: bool = True,
        routes: Routes | None = None,
        signatures: Signatures | None = None,
        payments: Payments | None = None,
        libcurl: Libcurl = PLAIN,
    ) -> None:
        """``timeout_s`` and ``most_bytes`` hold where a request's meta says nothing else.

        ``routes`` chooses proxies; None: all pages leave directly. ``signatures`` signs requests;
        None: they leave unsigned. ``payments`` pays for pages; None: nothing is paid. ``libcurl``
        is the build that greets sites.
        """
        self._leases = leases
        self._resolver = resolver
        self._timeout_s = timeout_s
        self._most_bytes = most_bytes
        self._verifies = verifies
        self._bind = bind
        self._fails_on_data_loss = fails_on_data_loss
        self._loop = asyncio.get_running_loop()
        self._certificates = _certificates()
        self._libcurl = libcurl
        most_kept = min(libcurl.most_kept, allow_files())
        self._direct = Line(self._loop, self._new, libcurl=libcurl, most_kept=most_kept)
        self._by_proxy = ProxyLines(self._loop, self._new_by, libcurl)
        self._routes = routes
        self._signatures = signatures
        self._payments = payments

    async def fetch(self, request: Request, page: Page) -> Response:
        """Send one request; GrantExpired, AddressRefused, or why no response came."""
        self._leases.set_out(page, request.url)
        host, port = place_of(request.url)
        pool = None
        if self._routes and not self._routes.are_needless(page):
            pool = await self._routes.pool_for(page, host, port)
        addresses = self._resolver.known(host, port)
        if addresses is None:
            addresses = await self._resolver.resolve(host, port)
        ask = _Ask(request, page, host, port, addresses)
        if pool is None or self._routes is None:
            has_purse = self._payments and page.lease.profile.purse
            sending = self._send_paid(ask) if has_purse else self._send(ask)
            return await reported(sending, page, self._leases)
        download = Attempts(self._routes).run(pool, page, partial(self._leave, ask))
        return await reported(download, page, self._leases)

    async def _leave(self, ask: _Ask, route: Route | None) -> Response:
        return await (self._send(ask) if route is None else self._send_by(route, ask))

    async def fetch_by(self, route: Route, request: Request, page: Page) -> Response:
        """Send one request through this proxy; ProxyTrouble says whose failure it was."""
        self._leases.set_out(page, request.url)
        host, port = place_of(request.url)
        addresses = await self._resolver.resolve(host, port)
        return await self._send_by(route, _Ask(request, page, host, port, addresses))

    async def _send_by(self, route: Route, ask: _Ask) -> Response:
        """Send it through one proxy; ProxyTrouble says whose failure it was."""
        host, port = route.proxy.host, route.proxy.port
        try:
            addresses = await self._resolver.resolve_proxy(host)
        except (AddressRefused, CannotResolveHostError) as error:
            raise ProxyTrouble(Blame.PROXY, str(error)) from error
        transfer = (line := self._by_proxy.line(route)).take()
        is_plain = False
        try:
            is_literal = literal(host) is not None
            transfer.begin(ask.page, addresses, most=self._most_of(ask), is_literal=is_literal)
            pins = [*ask.pins(), *([] if is_literal else [pin(host, port, addresses)])]
            if route.pool.dns == "local" and route.proxy.scheme != "socks5":
                direct = straight_to(ask.host, ask.port, ask.addresses)
                transfer.curl.setopt(pycurl.CONNECT_TO, [direct])
            is_whole = is_absolute(route, ask.request.url)
            # Many proxies close behind the answer, and a request on a dead connection is lost.
            transfer.curl.setopt(pycurl.FORBID_REUSE, int(is_whole))
            is_plain = self._prepare(transfer, ask, pins, is_absolute=is_whole)
            response = await self._download(line, transfer, ask, is_proxied=True)
            blame = blame_in(response.status, response.headers) if is_whole else None
            if blame:
                raise ProxyTrouble(blame, f"the proxy answered {response.status}")
            return response
        finally:
            if self._routes:
                self._routes.weighed(route, *transfer.weight, connect_s=transfer.connect_s)
            line.keep(transfer, is_plain=is_plain)

    async def _send_paid(self, ask: _Ask) -> Response:
        """Send it directly, with the price that its purse pays; robots.txt is not paid."""
        request, page = ask.request, ask.page
        is_page = request.method == "GET" and ROBOTS not in request.meta and not page.is_lent
        if self._payments is None or not is_page:
            return await self._send(ask)
        return await self._payments.pay(page, lambda price: self._send(ask._replace(price=price)))

    async def _send(self, ask: _Ask) -> Response:
        """Send it directly, to an address that its lease pays for; OtherMachine."""
        resolved = ask.addresses
        ask = ask._replace(addresses=self._leases.machines.covered(ask.page, resolved))
        transfer = self._direct.take()
        is_plain = False
        try:
            is_literal = literal(ask.host) is not None
            transfer.begin(ask.page, ask.addresses, most=self._most_of(ask), is_literal=is_literal)
            transfer.is_strict = ask.addresses is not resolved
            is_plain = self._prepare(transfer, ask, ask.pins())
            return await self._download(self._direct, transfer, ask)
        finally:
            self._direct.keep(transfer, is_plain=is_plain)

    def _most_of(self, ask: _Ask) -> int:
        """Return how many bytes a body may have; 0: any number.

        After a HEAD none follows, and the Content-Length is what was asked for.
        """
        most: int = ask.request.meta.get("download_maxsize", self._most_bytes)
        return 0 if ask.request.method == "HEAD" else most

    def _prepare(
        self, transfer: Transfer, ask: _Ask, pins: list[str], *, is_absolute: bool = False
    ) -> bool:
        """Pass a request to libcurl; return whether its handle may be used again."""
        transfer.verify(trust.must_prove(ask.request, ask.page.lease, self._verifies))
        transfer.curl.setopt(pycurl.RESOLVE, pins)
        signed: Sequence[bytes] = ()
        if self._signatures:
            signed = self._signatures.lines(ask.request, ask.page, ask.price)
        is_plain = write(transfer.curl, ask.request, signed, is_absolute=is_absolute)
        if ask.page.tls != LEGACY:
            return is_plain
        transfer.greet_as_of_old()
        return False

    async def _download(
        self, line: Line, transfer: Transfer, ask: _Ask, *, is_proxied: bool = False
    ) -> Response:
        self._start_clock(transfer, ask.request)
        failure: Exception | None = None
        try:
            is_lossy = await self._run(line, transfer, ask.request)
            return self._answer(transfer, ask, is_lossy=is_lossy, is_proxied=is_proxied)
        except DownloadCancelledError as error:
            # The body is too large, and the head has said all that there is to say of it.
            if found := for_its_status(ask.request, transfer.head, error):
                ask.page.cpu_s += transfer.size * BODY_S_PER_BYTE
                return found
            raise
        except Exception as error:
            failure = transfer.blamed(error)
            if failure is error:
                raise
        raise failure

    async def _run(self, line: Line, transfer: Transfer, request: Request) -> bool:
        """Return whether the response ended early and is accepted nevertheless."""
        try:
            await line.multi.run(transfer)
        except TransferFailed as error:
            fails = request.meta.get("download_fail_on_dataloss", self._fails_on_data_loss)
            if fails or not transfer.has_head or error.reason != "connection_lost":
                raise
            return True
        return False

    def _start_clock(self, transfer: Transfer, request: Request) -> None:
        timeout_s = request.meta.get("download_timeout") or self._timeout_s

        def end() -> None:
            words = f"no complete response within {timeout_s} s"
            transfer.end(DownloadTimeoutError(words))

        transfer.clock = Clock(self._loop, timeout_s, end)

    def _answer(
        self, transfer: Transfer, ask: _Ask, *, is_lossy: bool, is_proxied: bool
    ) -> Response:
        request = ask.request
        if not transfer.is_paid:
            raise RuntimeError(f"libcurl has sent a request without asking: {request.url}")
        if not transfer.has_head:
            raise TransferFailed("connection_lost", "the connection broke in the head")
        latency = download_latency(ask.page.left_at, transfer.head_at)
        request.meta["download_latency"] = latency
        parts = transfer.body
        body = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
        address = "" if is_proxied else transfer.curl.getinfo(pycurl.PRIMARY_IP)
        flags = ["dataloss"] if is_lossy else []
        if ask.page.keeps_bytes and ROBOTS not in request.meta:
            ask.page.as_sent = AsSent(b"".join(transfer.head), body)
        return response_of(request, transfer.head, body, address, flags=flags)

    def _new(self, progress: TransferCount) -> Transfer:
        transfer = Transfer(
            self._loop, self._leases, progress, curl=self._libcurl.easy(), bind=self._bind
        )
        for option, path in self._certificates.items():
            transfer.curl.setopt(option, path)
        return transfer

    def _new_by(self, route: Route, progress: TransferCount) -> Transfer:
        transfer = ProxiedTransfer(
            self._loop,
            self._leases,
            progress,
            curl=self._libcurl.easy(),
            bind=self._bind,
            route=route,
        )
        for option, path in self._certificates.items():
            transfer.curl.setopt(option, path)
            transfer.curl.setopt(_OF_PROXIES[option], path)
        return transfer

    def close(self) -> None:
        """Close all connections; no request may be in flight."""
        self._direct.close()
        self._by_proxy.close()


_OF_PROXIES = {pycurl.CAINFO: pycurl.PROXY_CAINFO, pycurl.CAPATH: pycurl.PROXY_CAPATH}
"""The certificates by which a proxy that is spoken to through TLS must prove who it is."""


def _certificates() -> dict[int, str]:
    """Return libcurl's options for the certificates that this machine trusts."""
    names = {"cafile": pycurl.CAINFO, "capath": pycurl.CAPATH}
    return {names[name]: path for name, path in trust.trusted_certificates().items()}
