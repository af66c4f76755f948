"""New connections: made as Twisted makes them, only without a race of one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import pytest
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.error import ConnectError, ConnectingCancelledError, DNSLookupError
from twisted.internet.interfaces import IReactorPluggableNameResolver
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.ssl import optionsForClientTLS
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from crawling.net.address_guard import GuardedResolver, _HostnameResolver
from crawling.net.endpoints import Straight
from crawlstream.boot.addresses import Guard

NAME = "known.example"
ONE = {"IPv4": ["8.8.8.8"], "IPv6": ["2606:4700::1111"]}
OTHERS = {
    "several": ["8.8.8.8", "2606:4700::1111"],
    "refused": ["10.0.0.1"],
    "none": [],
}
BOUND = ("192.0.2.7", 0)


@implementer(IReactorPluggableNameResolver)
class Reactor(MemoryReactorClock):
    """Connects nowhere; its names are what the guard knows."""

    def __init__(self, addresses: Sequence[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        resolver = GuardedResolver(Guard(), self)
        found = tuple(map(ip_address, addresses))
        resolver._answers[NAME] = (time.monotonic() + 60, found)
        self.nameResolver: Any = _HostnameResolver(resolver)


@dataclass
class Attempt:
    """A connection that is being made, by Twisted's endpoint or without its race."""

    addresses: Sequence[str]
    straight: bool
    tls: bool = False
    host: str = NAME
    ended: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        reactor: Any = Reactor(self.addresses)
        self.reactor = reactor
        endpoint: Any = HostnameEndpoint(reactor, self.host, 443, 9, BOUND)
        if self.tls:
            endpoint = wrapClientTLS(optionsForClientTLS(NAME), endpoint, clock=reactor)
        if self.straight:
            endpoint = Straight(endpoint, reactor.nameResolver.guarded)
        self.deferred = endpoint.connect(Factory.forProtocol(Protocol))
        self.deferred.addBoth(self.ended.append)

    @property
    def asked(self) -> list[Any]:
        """Connections that the reactor was to make: host, port, timeout, bound to."""
        return [(host, port, *rest) for host, port, _, *rest in self.reactor.tcpClients]

    @property
    def factory(self) -> Any:
        """End of the first connection."""
        return self.reactor.tcpClients[0][2]

    @property
    def end(self) -> list[Any]:
        """Its outcome: the kind of a failure, or of a protocol."""
        return [each.type if isinstance(each, Failure) else type(each) for each in self.ended]

    def refuse(self) -> None:
        """Nothing listens there."""
        self.factory.clientConnectionFailed(None, Failure(ConnectError()))

    def accept(self) -> None:
        """A server listens there."""
        protocol = self.factory.buildProtocol(None)
        protocol.makeConnection(StringTransport())

    def cancel(self) -> None:
        """No client waits for it any more."""
        self.deferred.cancel()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("addresses", ONE.values(), ids=ONE)
@pytest.mark.parametrize(
    ("ending", "end"),
    [
        (Attempt.refuse, ConnectError),
        (Attempt.accept, Protocol),
        (Attempt.cancel, ConnectingCancelledError),
    ],
)
def test_a_host_of_one_address_is_connected_to_without_a_race(
    addresses: Sequence[str], ending: Callable[[Attempt], None], end: type[object], *, tls: bool
) -> None:
    """Address, port, timeout, local address, TLS and end are the same as Twisted's."""
    twisted, straight = (Attempt(addresses, straight=each, tls=tls) for each in (False, True))
    assert straight.asked == twisted.asked == [(*addresses, 443, 9, BOUND)]
    assert type(straight.factory._wrappedFactory) is type(twisted.factory._wrappedFactory)
    assert twisted.reactor.getDelayedCalls(), "Twisted starts no race: straight is of no use"
    assert not straight.reactor.getDelayedCalls(), "there was a race: Twisted's names have changed"
    for each in (twisted, straight):
        ending(each)
        each.reactor.advance(1)
    assert straight.end == twisted.end == [end]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("addresses", OTHERS.values(), ids=OTHERS)
def test_whatever_else_is_left_to_twisted(addresses: Sequence[str], *, tls: bool) -> None:
    """Several addresses race each other; none, and none that is allowed, are one failure."""
    twisted, straight = (Attempt(addresses, straight=each, tls=tls) for each in (False, True))
    for each in (twisted, straight):
        each.reactor.advance(1)
    assert straight.asked == twisted.asked
    assert len(straight.asked) in {0, len(addresses)}
    assert straight.end == twisted.end == ([] if len(addresses) > 1 else [DNSLookupError])


def test_a_host_that_is_no_name_is_refused_as_ever() -> None:
    """Refuses an invalid host name, though a server may know it."""
    straight = Attempt(ONE["IPv4"], straight=True, host="no name")
    assert (straight.asked, straight.end) == ([], [ValueError])
