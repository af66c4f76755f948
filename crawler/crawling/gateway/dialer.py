"""Connects to a target, directly or through a proxy, and only to where the guard lets pass."""

from __future__ import annotations

import asyncio
import ssl
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from base64 import b64encode
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import h11
from scrapy.exceptions import CannotResolveHostError

from crawling.egress.blame import Blame, blame_of_connect
from crawling.egress.route import Route
from crawling.egress.routes import Routes
from crawling.failures import ProxyTrouble, TransferFailed
from crawling.gateway import socks
from crawling.net.address_guard import GuardedResolver
from crawling.net.trust import trusted_certificates
from crawlstream.boot.addresses import Address, AddressRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STAND_S: Final = 15.0
"""Timeout of a connection to a site."""
REACH_S: Final = 3.0
"""Timeout of a connection to a proxy."""
READ = 64 * 1024
"""Bytes that are read ahead of a connection, and no more."""


@dataclass(slots=True)
class Link:
    """An open connection to a target."""

    reader: StreamReader
    writer: StreamWriter
    connect_s: float
    """Seconds that connecting took: to the proxy, if there is one."""
    early: bytes = b""
    """Bytes that followed a proxy's answer."""

    def abort(self) -> None:
        """End it at once."""
        self.writer.transport.abort()


class Dialer:
    """Vets and connects."""

    def __init__(
        self, resolver: GuardedResolver, routes: Routes | None, *, bind: tuple[str, int] | None
    ) -> None:
        self._resolver = resolver
        self._routes = routes
        self._bind = bind
        self.own_port = 0
        """The gateway's on 127.0.0.1: no target."""
        self._trust: ssl.SSLContext | None = None

    async def dial(
        self, route: Route | None, target: tuple[str, int], *, is_whole: bool = False
    ) -> Link:
        """Connect to a target; ``is_whole``: to the proxy, for requests by whole URL.

        AddressRefused or CannotResolveHostError; ProxyTrouble if the proxy or the path behind it
        has failed; TransferFailed for failures without a proxy.
        """
        if self._routes:
            self._routes.refuse_proxies(*target)
        addresses = await self._resolver.resolve(*target)
        if target[1] == self.own_port and any(each.is_loopback for each in addresses):
            raise AddressRefused("the gateway itself", "own")
        if route is None:
            return await self._directly(addresses, target[1])
        try:
            async with asyncio.timeout(STAND_S):
                return await self._through(route, target, addresses, is_whole=is_whole)
        except TimeoutError as error:
            # A proxy that says nothing may wait for a site that says nothing.
            raise ProxyTrouble(Blame.PATH, "no way to the site came about in time") from error

    async def _directly(self, addresses: Sequence[Address], port: int) -> Link:
        failure: TransferFailed | None = None
        span_s = max(STAND_S / len(addresses), REACH_S)
        for address in addresses:
            try:
                return await self._connected(address, port, span_s)
            except TimeoutError:
                failure = TransferFailed("timeout", f"{address} does not answer")
            except ConnectionRefusedError as error:
                failure = TransferFailed("refused", str(error))
            except OSError as error:
                failure = TransferFailed("unreachable", str(error))
        assert failure, "the guard has let none pass"
        raise failure

    async def _connected(self, address: Address, port: int, within_s: float, **tls: Any) -> Link:
        began = monotonic()
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(
                str(address), port, local_addr=self._bind, limit=READ, **tls
            )
        return Link(reader, writer, monotonic() - began)

    async def _through(
        self,
        route: Route,
        target: tuple[str, int],
        addresses: Sequence[Address],
        *,
        is_whole: bool,
    ) -> Link:
        link = await self._to_proxy(route)
        asked = (str(addresses[0]), target[1]) if route.pool.dns == "local" else target
        async with _blamed(link):
            if route.proxy.scheme == "socks5":
                await socks.ask(link.reader, link.writer, asked, route.credentials)
            elif not is_whole:
                await _tunnel(link, asked, route)
        return link

    async def _to_proxy(self, route: Route) -> Link:
        proxy, failure = route.proxy, "it has no address"
        tls: dict[str, Any] = {}
        if proxy.scheme == "https":
            tls = {"ssl": self._context(), "server_hostname": proxy.host}
        try:
            for address in await self._resolver.resolve_proxy(proxy.host):
                try:
                    return await self._connected(address, proxy.port, REACH_S, **tls)
                except OSError as error:
                    failure = type(error).__name__
        except (AddressRefused, CannotResolveHostError) as error:
            raise ProxyTrouble(Blame.PROXY, str(error)) from error
        raise ProxyTrouble(Blame.PROXY, f"no connection to it: {failure}")

    def _context(self) -> ssl.SSLContext:
        """By what a proxy that is spoken to through TLS must prove who it is."""
        if self._trust is None:
            self._trust = ssl.create_default_context()
            if known := trusted_certificates():
                self._trust.load_verify_locations(known.get("cafile"), known.get("capath"))
        return self._trust


@asynccontextmanager
async def _blamed(link: Link) -> AsyncIterator[None]:
    """A proxy that closes, or speaks something else, has failed; no link is left open."""
    try:
        yield
    except (IncompleteReadError, OSError, h11.RemoteProtocolError) as error:
        link.abort()
        if isinstance(error, TimeoutError):
            raise
        raise ProxyTrouble(Blame.PROXY, f"{type(error).__name__} before it answered") from error
    except BaseException:
        link.abort()
        raise


async def _tunnel(link: Link, target: tuple[str, int], route: Route) -> None:
    """CONNECT; ProxyTrouble by the status of the answer."""
    host, port = target
    asked = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    headers = [("Host", asked), *authorization(route)]
    speech = h11.Connection(h11.CLIENT)
    request = speech.send(h11.Request(method="CONNECT", target=asked, headers=headers))
    link.writer.write((request or b"") + (speech.send(h11.EndOfMessage()) or b""))
    while True:
        event = speech.next_event()
        if event is h11.NEED_DATA:
            speech.receive_data(await link.reader.read(READ))
        elif isinstance(event, h11.Response):
            break
        elif not isinstance(event, h11.InformationalResponse):
            raise IncompleteReadError(b"", None)
    if not 200 <= event.status_code < 300:
        raise ProxyTrouble(blame_of_connect(event.status_code), f"CONNECT {event.status_code}")
    link.early = speech.trailing_data[0]


def authorization(route: Route) -> list[tuple[str, str]]:
    """The header by which a proxy knows us."""
    if not route.credentials:
        return []
    user, password = route.credentials
    said = b64encode(f"{user}:{password.reveal()}".encode()).decode()
    return [("Proxy-Authorization", f"Basic {said}")]
