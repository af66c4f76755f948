"""No connection but to addresses that :mod:`crawlstream.boot.addresses` lets pass.

It sits in the reactor's name resolver, which Twisted's endpoints ask for literal addresses too, and
:mod:`crawling.net.endpoints` asks it itself; so pages, redirects, robots.txt and whatever a spider
fetches through Scrapy pass it, and only addresses that passed are ever connected to. A name that
changes its answer between check and connect (DNS rebinding) gains nothing: the answer that was
checked is the one used.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import CannotResolveHostError
from twisted.internet import address
from twisted.internet.interfaces import IHostnameResolver, IHostResolution
from zope.interface import implementer

from crawling.metrics import ADDRESSES_REFUSED
from crawlstream.boot.addresses import Address, AddressRefused, Guard, Interfaces

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawlstream.boot.settings import Settings

_LOOKUP_S = 10.0
_LOOKUPS_AT_ONCE = 128
"""Threads that wait for the system's resolver, as many as names keep silent at once: it waits 10 s
or more for each, and behind them names that work would fail. There are no more than needed."""
_ANSWER_S = 60.0
"""Seconds for which an answer is cached: saves most lookups, yet follows a host that moves."""
_NO_ANSWER_S = 5.0
_ANSWERS = 10_000


@lru_cache(_ANSWERS)
def literal(host: str) -> Address | None:
    """The address that a host is by itself; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


class GuardedResolver:
    """Scrapy's DNS resolver (``TWISTED_DNS_RESOLVER``): looks up, remembers, and vets."""

    def __init__(self, guard: Guard, reactor: Any) -> None:
        self._guard = guard
        self._reactor = reactor
        self._threads = ThreadPoolExecutor(_LOOKUPS_AT_ONCE, "dns")
        self._answers: OrderedDict[str, tuple[float, Sequence[Address]]] = OrderedDict()
        self._lookups: dict[str, asyncio.Future[Sequence[Address]]] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler, reactor: Any) -> GuardedResolver:
        """Scrapy calls this with its process, which has settings as a crawler has."""
        settings: Settings = crawler.settings["CRAWLSTREAM"]
        guard = Guard(settings.allow_networks, settings.deny_networks, Interfaces())
        return cls(guard, reactor)

    @classmethod
    def in_force(cls, crawler: Crawler, reactor: Any) -> GuardedResolver:
        """The resolver of this reactor; one that was started without it gets it now."""
        if not isinstance(reactor.nameResolver, _HostnameResolver):
            cls.from_crawler(crawler, reactor).install_on_reactor()
        resolver: GuardedResolver = reactor.nameResolver.guarded
        return resolver

    def install_on_reactor(self) -> None:
        """Make every connection of Twisted's endpoints pass the guard."""
        self._reactor.installNameResolver(_HostnameResolver(self))

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """Return allowed addresses of ``host:port``; CannotResolveHostError or AddressRefused."""
        known = self.known(host, port)
        return self._vet(host, await self._ask(host), port) if known is None else known

    async def resolve_proxy(self, host: str) -> Sequence[Address]:
        """Return the addresses of a proxy; CannotResolveHostError or AddressRefused."""
        until, found = self._answers.get(host, (0.0, ()))
        if until <= time.monotonic():
            address = literal(host)
            found = (address,) if address else await self._ask(host)
        if not found:
            raise CannotResolveHostError("the proxy has no IP address")
        return self._guard.vet_proxy(found)

    def known(self, host: str, port: int) -> Sequence[Address] | None:
        """Return the addresses that are known without a lookup, as for most requests; else None."""
        host = host.strip("[]")
        until, found = self._answers.get(host, (0.0, ()))
        if until > time.monotonic():
            return self._vet(host, found, port)
        address = literal(host)
        return self._vet(host, (address,), port) if address else None

    def _vet(self, host: str, found: Sequence[Address], port: int) -> Sequence[Address]:
        if not found:
            raise CannotResolveHostError(f"no IP address found for {host!r}")
        try:
            return self._guard.vet(found, port)
        except AddressRefused as error:
            ADDRESSES_REFUSED.labels(error.kind).inc()
            raise

    async def _ask(self, host: str) -> Sequence[Address]:
        try:
            async with asyncio.timeout(_LOOKUP_S):
                return await asyncio.shield(self._lookup(host))
        except TimeoutError as error:
            raise CannotResolveHostError(f"DNS lookup of {host!r} timed out") from error

    def _lookup(self, host: str) -> asyncio.Future[Sequence[Address]]:
        """Ask the system once for a name, however many requests wait for it."""
        lookup = self._lookups.get(host)
        if lookup is None:
            loop = asyncio.get_running_loop()
            lookup = loop.run_in_executor(self._threads, _system_lookup, host)
            lookup.add_done_callback(lambda done: self._remember(host, done.result()))
            self._lookups[host] = lookup
        return lookup

    def _remember(self, host: str, found: Sequence[Address]) -> None:
        del self._lookups[host]
        self._answers[host] = (time.monotonic() + (_ANSWER_S if found else _NO_ANSWER_S), found)
        self._answers.move_to_end(host)
        if len(self._answers) > _ANSWERS:
            self._answers.popitem(last=False)


def _system_lookup(host: str) -> Sequence[Address]:
    """Every address that the system knows for a name; none if it knows none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in found)


@implementer(IHostnameResolver)
class _HostnameResolver:
    """The resolver in the shape that Twisted's endpoints ask for."""

    def __init__(self, guarded: GuardedResolver) -> None:
        self.guarded = guarded
        self._asking: set[asyncio.Task[None]] = set()

    def resolveHostName(  # noqa: N802  Twisted's name
        self,
        resolutionReceiver: Any,  # noqa: N803
        hostName: str,  # noqa: N803
        portNumber: int = 0,  # noqa: N803
        addressTypes: Sequence[type[Any]] | None = None,  # noqa: N803
        transportSemantics: str = "TCP",  # noqa: N803
    ) -> Any:
        """Report the checked addresses: none if the name is unknown or refused."""
        resolution = _Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)

        def tell(addresses: Sequence[Address]) -> None:
            for each in addresses:
                kind = address.IPv4Address if each.version == 4 else address.IPv6Address
                resolutionReceiver.addressResolved(kind("TCP", str(each), portNumber))
            resolutionReceiver.resolutionComplete()

        async def ask() -> None:
            try:
                addresses = await self.guarded.resolve(hostName, portNumber)
            except (AddressRefused, CannotResolveHostError):
                addresses = ()
            tell(addresses)

        try:
            known = self.guarded.known(hostName, portNumber)
        except (AddressRefused, CannotResolveHostError):
            known = ()
        if known is not None:
            tell(known)
            return resolution
        task = asyncio.ensure_future(ask())
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return resolution


@implementer(IHostResolution)
class _Resolution:
    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        """Nothing to stop: others may wait for the same answer."""
