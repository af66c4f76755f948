"""An HTTP proxy that can imitate failures of proxies."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, TypeVar

from crawlstream_chaos.facts.facts import ByProxies
from crawlstream_cli.demo.access_log import LoggedRequest
from crawlstream_cli.demo.arrival import StampedSocket

Mood = Literal["well", "dead", "frozen", "mute", "locked"]
"""``dead``: takes no connection; ``frozen``: takes them, reads nothing; ``mute``: reads, and never
answers; ``locked``: wants a password that does not exist."""
FAILING: tuple[Mood, ...] = ("dead", "frozen", "mute", "locked")

_READ_BYTES = 256 * 1024
_NO_LUCK_S = 0.1
_ASKED: Final = re.compile(rb"(?!CONNECT)([A-Z]+) (\S+) HTTP/1\.1\r\n")
_OPEN = b"HTTP/1.1 200 OK\r\n\r\n"
_LOCKED = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
_NO_WAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"


T = TypeVar("T")


def _itself(thing: T) -> T:
    return thing


class _Reader(asyncio.StreamReader):
    """Reads a visitor's bytes, and notes when each request had come in, by the kernel."""

    def __init__(self, visitor: StampedSocket, seen: list[LoggedRequest]) -> None:
        super().__init__()
        self._visitor = visitor
        self._seen = seen
        self.host = ""
        """Where its tunnel leads."""

    def feed_data(self, data: Any) -> None:
        """Called as soon as it was read, whether anybody waits for it or not."""
        if self.host and (asked := _ASKED.match(data)):
            method, path = asked[1].decode(), asked[2].decode()
            self._seen.append(
                LoggedRequest(*self._visitor.arrived_ms, self.host, method, path, 0, "")
            )
        super().feed_data(data)


class WebProxy:
    """Opens tunnels (CONNECT) from one port of 127.0.0.1; fails on request."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.mood: Mood = "well"
        self.seen = ByProxies()
        self._listener: socket.socket | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tunnels: dict[asyncio.StreamWriter, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._may_read = asyncio.Event()
        self._may_read.set()

    async def start(self) -> None:
        """Listen."""
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        self._listener.settimeout(0)
        self._begin(self._keep_taking(self._listener))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Listen no more, and cut what there is."""
        self._close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def become(self, mood: Mood) -> None:
        """Behave so from now on; who comes back from any failure has cut its connections."""
        before, self.mood = self.mood, mood
        if mood != "locked":
            self.seen.broken.update(self._tunnels.values())
            self._tunnels.clear()
        if mood == "dead":
            self._close()
        elif mood == "frozen":
            self._may_read.clear()
        elif mood == "well":
            self._cut()
            self._may_read.set()
        if before == "dead" and mood != "dead":
            await self.start()

    def _close(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        self._cut()

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _keep_taking(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while self._listener is listener:
            try:
                visitor = StampedSocket.over((await loop.sock_accept(listener))[0])
                reader = _Reader(visitor, self.seen.departures)
                protocol = asyncio.StreamReaderProtocol(reader)
                way = partial(_itself, protocol)
                transport, _ = await loop.connect_accepted_socket(way, visitor)
            except OSError:
                await asyncio.sleep(_NO_LUCK_S)
                continue
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            self._begin(self._take(reader, writer))

    async def _take(self, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, ValueError):
                await self._serve(reader, writer)
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _serve(self, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        host, _, port = head.split(b" ", 2)[1].decode().rpartition(":")
        if self.mood in {"frozen", "mute"}:
            self.seen.broken[host] += 1
        await self._may_read.wait()
        if self.mood == "mute":
            await reader.read()
            return
        if self.mood == "locked":
            writer.write(_LOCKED)
            await writer.drain()
            return
        try:
            site_reader, site = await asyncio.open_connection(host, int(port))
        except OSError:
            self.seen.broken[host] += 1
            writer.write(_NO_WAY)
            await writer.drain()
            return
        self._writers.add(site)
        reader.host = self._tunnels[writer] = host
        writer.write(_OPEN)
        try:
            await self._both_ways((reader, writer), (site_reader, site))
        finally:
            self._tunnels.pop(writer, None)
            self._writers.discard(site)
            site.transport.abort()

    async def _both_ways(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        site: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        pumps = {
            asyncio.ensure_future(self._carry(client[0], site[1])),
            asyncio.ensure_future(self._carry(site[0], client[1])),
        }
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_READ_BYTES):
                await self._may_read.wait()
                if self.mood != "mute":
                    writer.write(data)
                    await writer.drain()
