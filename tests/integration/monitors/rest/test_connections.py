"""A REST process under clients that say nothing, too little, or will not listen."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import pytest

from crawlstream_cli.local.ports import free_block
from rest_service.http.connections import HEAD_S, MAX_CONNECTIONS
from support.monitors import MonitorCluster
from support.rest import RestProcess, running_rest

SECRET = "o" * 20
EACH = 500
_PEERS = [f"127.0.0.{number}" for number in range(2, 8)]
_HEAD = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def guarded(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RestProcess, int]]:
    """A service that asks for a key, and the port of its health."""
    health = free_block(1)
    settings = {
        "CRAWLSTREAM_API_KEYS": f"operate:{SECRET}",
        "CRAWLSTREAM_METRICS_PORT": str(health),
        "CRAWLSTREAM_REST_PEER_CONNECTIONS": str(EACH),
    }
    with running_rest(cluster, tmp_path_factory.mktemp("guarded"), **settings) as service:
        yield service, health


@contextmanager
def _connected(
    port: int, count: int, *, peers: Sequence[str] = _PEERS
) -> Iterator[list[socket.socket]]:
    """Open that number of connections, from several addresses in turn."""
    with ExitStack() as stack:
        found = []
        for number in range(count):
            one = stack.enter_context(socket.socket())
            one.bind((peers[number % len(peers)], 0))
            one.settimeout(20)
            one.connect(("127.0.0.1", port))
            found.append(one)
        yield found


def _is_open(one: socket.socket) -> bool:
    """Return whether the other side has not closed it; its data is read and dropped."""
    one.settimeout(0)
    with suppress(ConnectionError):
        try:
            while one.recv(65_536):
                pass
        except BlockingIOError:
            return True
    return False


def _read(one: socket.socket, answers: int) -> bytes:
    """Read that number of complete answers of a connection."""
    found = b""
    while found.count(b'"error":null}') < answers:
        chunk = one.recv(65_536)
        assert chunk, found
        found += chunk
    return found


def _ask(port: int, peer: str, head: bytes = _HEAD) -> tuple[int, bytes]:
    """The status of one request from an address, and all that was answered."""
    with _connected(port, 1, peers=[peer]) as (one,):
        one.sendall(head + b"Connection: close\r\n\r\n")
        answer = b""
        while chunk := one.recv(65_536):
            answer += chunk
    return int(answer.split()[1]), answer


def _drip_until_closed(connections: Sequence[socket.socket]) -> None:
    """Send a byte a second on each that is open; for so long at most as shows that none ends."""
    until = time.monotonic() + 2 * HEAD_S
    while (still := [one for one in connections if _is_open(one)]) and time.monotonic() < until:
        for one in still:
            # It may be closed at any moment.
            with suppress(OSError):
                one.send(b"x")
        time.sleep(1)


async def test_silent_connections_close_nothing(guarded: tuple[RestProcess, int]) -> None:
    """Clients are answered while thousands are silent, on both ports; then those are closed."""
    rest, health = guarded
    more = MAX_CONNECTIONS + 200

    def crowd() -> None:
        with _connected(rest.port, more) as silent, _connected(health, 600) as others:
            began = time.monotonic()
            for peer in ("127.0.0.1", "127.0.0.2", "127.0.0.99"):
                assert _ask(rest.port, peer)[0] == 200
                assert _ask(health, peer)[0] == 200
            assert time.monotonic() - began < HEAD_S
            kept = Counter(one.getsockname()[0] for one in silent if _is_open(one))
            assert 0 < sum(kept.values()) <= MAX_CONNECTIONS
            assert max(kept.values()) <= EACH
            time.sleep(HEAD_S + 2)
            assert not any(map(_is_open, silent))
            assert not any(map(_is_open, others))

    await asyncio.to_thread(crowd)


async def test_a_head_that_drips_is_given_up(guarded: tuple[RestProcess, int]) -> None:
    """A byte a second makes no head last longer, be it the first or a later one."""
    rest, _ = guarded

    def drip() -> None:
        with _connected(rest.port, 2) as (first, later):
            later.sendall(_HEAD + b"\r\n")
            assert b" 200 " in later.recv(65_536)
            began = time.monotonic()
            for one in (first, later):
                one.sendall(b"GET /health/live HTTP/1.1\r\nX: ")
            _drip_until_closed((first, later))
            assert HEAD_S - 1 < time.monotonic() - began < 2 * HEAD_S

    await asyncio.to_thread(drip)


async def test_a_body_that_nobody_wants_holds_nothing(guarded: tuple[RestProcess, int]) -> None:
    """A client refused before the body cannot keep the connection by sending it slowly."""
    rest, _ = guarded

    def drip() -> None:
        with _connected(rest.port, 1) as (one,):
            one.sendall(b"POST /feed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
            assert b" 401 " in one.recv(65_536)
            began = time.monotonic()
            _drip_until_closed((one,))
            assert time.monotonic() - began < 2 * HEAD_S

    await asyncio.to_thread(drip)


async def test_a_peer_has_its_share(guarded: tuple[RestProcess, int]) -> None:
    """If all connections of an address work, the next has to wait; other addresses are answered."""
    rest, _ = guarded
    key = f"X-API-Key: {SECRET}\r\n".encode()
    slow = b"POST /feed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n" + key + b"\r\n"

    def crowd() -> None:
        with _connected(rest.port, EACH, peers=["127.0.0.9"]) as busy:
            for one in busy:
                one.sendall(slow)
            time.sleep(1)
            status, answer = _ask(rest.port, "127.0.0.9")
            assert (status, b"Retry-After: 1" in answer) == (503, True)
            assert b"too_many_connections" in answer
            assert _ask(rest.port, "127.0.0.1")[0] == 200
            busy[0].close()
            time.sleep(0.5)
            assert _ask(rest.port, "127.0.0.9")[0] == 200

    await asyncio.to_thread(crowd)


async def test_a_silent_connection_may_still_ask(guarded: tuple[RestProcess, int]) -> None:
    """A connection serves request after request, also behind a pause."""
    rest, _ = guarded

    def ask() -> None:
        with _connected(rest.port, 1) as (one,):
            for pause_s in (0, 0.1, HEAD_S + 2, 0):
                time.sleep(pause_s)
                one.sendall(_HEAD + b"\r\n")
                assert _read(one, 1).count(b" 200 ") == 1
            one.sendall((_HEAD + b"\r\n") * 20)
            assert _read(one, 20).count(b" 200 ") == 20

    await asyncio.to_thread(ask)
