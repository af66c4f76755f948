"""A TCP proxy that can imitate a bad network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_READ_BYTES = 256 * 1024


class FaultyProxy:
    """Listens on one port of 127.0.0.1 and forwards to another, with faults on request.

    A connection that was disturbed (:meth:`mute`, :meth:`half_open`) is cut in the end, so that a
    client cannot mistake a later reply for the lost one.
    """

    def __init__(self, port: int, server_port: int) -> None:
        self.port = port
        self._server_port = server_port
        self._listener: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._delay_s = 0.0
        self._drops_replies = False
        self._drops_one = False
        self._may_pass = asyncio.Event()
        self._may_pass.set()

    async def start(self) -> None:
        """Listen."""
        self._listener = await asyncio.start_server(self._take, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Listen no more, and cut what there is."""
        if self._listener is not None:
            self._listener.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Abort every connection; a client may come again at once."""
        for writer in self._connections:
            writer.transport.abort()

    @asynccontextmanager
    async def slow(self, delay_s: float) -> AsyncIterator[None]:
        """Everything takes so much longer, in both directions."""
        self._delay_s = delay_s
        try:
            yield
        finally:
            self._delay_s = 0.0

    @asynccontextmanager
    async def mute(self) -> AsyncIterator[None]:
        """Requests arrive and take effect; their replies are lost."""
        self._drops_replies = True
        try:
            yield
        finally:
            self.cut()
            self._drops_replies = False

    def lose_reply(self) -> None:
        """Lose the next reply, and cut its connection; later replies pass."""
        self._drops_one = True

    @asynccontextmanager
    async def half_open(self) -> AsyncIterator[None]:
        """Connections stay, new ones are taken, and nothing passes."""
        self._may_pass.clear()
        try:
            yield
        finally:
            self.cut()
            self._may_pass.set()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry bytes both ways until one side is gone."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            server_reader, server = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        both = (writer, server)
        self._connections.update(both)
        pumps = {
            asyncio.create_task(self._carry(reader, server, is_reply=False)),
            asyncio.create_task(self._carry(server_reader, writer, is_reply=True)),
        }
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            self._connections.difference_update(both)
            for each in both:
                each.transport.abort()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_reply: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_READ_BYTES):
                await self._may_pass.wait()
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                if is_reply and self._drops_replies:
                    continue
                if is_reply and self._drops_one:
                    self._drops_one = False
                    return
                writer.write(data)
                await writer.drain()
