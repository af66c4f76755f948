"""Connections that are kept: bounded, and nothing is left of those that are not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from twisted.internet.task import Clock
from twisted.web.client import HTTPConnectionPool

from crawling.net.connections import KeptConnections


@dataclass(eq=False)
class Connection:
    """Calls of the pool on a connection, and whether it was closed."""

    state: str = "QUIESCENT"
    is_closed: bool = False
    transport: Any = field(init=False)

    def __post_init__(self) -> None:
        self.transport = self

    def loseConnection(self) -> None:  # noqa: N802  Twisted's name
        """Twisted's way to close one."""
        self.is_closed = True


class Endpoint:
    """Where no connection can be had."""

    def connect(self, _factory: Any) -> str:
        """Stands for a new connection."""
        return "new"


def pool_of(most: int) -> tuple[KeptConnections, Clock]:
    """A pool, and the time that it goes by."""
    clock = Clock()
    return KeptConnections(clock, HTTPConnectionPool(clock), most), clock


def test_a_full_pool_closes_what_was_idle_for_longest() -> None:
    """Closes the connection that was idle longest, of any host; the others stay usable."""
    pool, clock = pool_of(most=3)
    connections = [Connection() for _ in range(5)]
    for number, connection in enumerate(connections):
        pool._putConnection(number, connection)
        clock.advance(1)
    assert [connection.is_closed for connection in connections] == [True] * 2 + [False] * 3
    assert pool.getConnection(0, Endpoint()) == "new"
    assert pool.getConnection(2, Endpoint()).result is connections[2]
    pool._putConnection(2, connections[2])
    pool._putConnection(9, Connection())
    assert connections[3].is_closed, "the one that came back counts from then"
    assert not connections[2].is_closed


def test_nothing_is_left_of_a_host() -> None:
    """Forgets a host when its connection is used, or was idle for too long."""
    pool, clock = pool_of(most=9)
    for number in range(4):
        pool._putConnection(number, Connection())
    assert pool.getConnection(0, Endpoint())
    assert set(pool._connections) == {1, 2, 3}
    clock.advance(pool.cachedConnectionTimeout)
    assert not pool._connections
    assert not pool._timeouts
    assert not clock.getDelayedCalls()


def test_nothing_is_sent_twice() -> None:
    """A request over a kept connection that turns out dead fails; the frontier retries it."""
    pool, _clock = pool_of(most=1)
    assert not pool.retryAutomatically
