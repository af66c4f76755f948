"""An HTTP proxy that can be told to fail as proxies do."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal

Mood = Literal["well", "dead", "frozen", "mute", "locked"]
"""``dead``: takes no connection; ``frozen``: takes them, reads nothing; ``mute``: reads, and never
answers; ``locked``: wants a password that nobody has."""
FAILING: tuple[Mood, ...] = ("dead", "frozen", "mute", "locked")

_READ_BYTES = 256 * 1024
_OPEN = b"HTTP/1.1 200 OK\r\n\r\n"
_LOCKED = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
_NO_WAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"


class WebProxy:
    """Opens tunnels (CONNECT) from one port of 127.0.0.1, until it is told otherwise."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.mood: Mood = "well"
        self.tunnels = 0
        """How many were opened so far."""
        self._listener: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._may_read = asyncio.Event()
        self._may_read.set()

    async def start(self) -> None:
        """Listen."""
        self._listener = await asyncio.start_server(self._take, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Listen no more, and cut what there is."""
        self._close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def become(self, mood: Mood) -> None:
        """Behave so from now on; who comes back from any failure has cut its connections."""
        before, self.mood = self.mood, mood
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
            self._listener.close()
            self._listener = None
        self._cut()

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, ValueError):
                await self._serve(reader, writer)
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await self._may_read.wait()
        if self.mood == "mute":
            await reader.read()
            return
        if self.mood == "locked":
            writer.write(_LOCKED)
            await writer.drain()
            return
        host, _, port = head.split(b" ", 2)[1].decode().rpartition(":")
        try:
            site_reader, site = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.write(_NO_WAY)
            await writer.drain()
            return
        self._writers.add(site)
        self.tunnels += 1
        writer.write(_OPEN)
        try:
            await self._both_ways((reader, writer), (site_reader, site))
        finally:
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
