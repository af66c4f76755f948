"""Long answers: files and server-sent events, and a limit of those in progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing

from fastapi.responses import StreamingResponse
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from crawlstream.tasks import beside
from crawlstream.wire import jsontext
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused
from rest_service.http.fair_semaphore import FairSemaphore

MAX_STREAMS, MAX_STREAMS_EACH = 20, 10
"""Limit of concurrent streams, in total and per client."""
EVENTS = "text/event-stream"
SILENCE_S = 15
"""Seconds after which a silent stream has a comment: proxies close connections that are silent."""
_PIECE_BYTES = 64 * 1024
"""Bytes that are passed to a connection at a time: each piece waits until its client reads."""


class HeldAnswer(Response):
    """A large answer, which gives back what it occupies when its client has read it."""

    def __init__(self, answer: Response, held: AsyncExitStack) -> None:
        super().__init__(answer.body, answer.status_code, media_type=answer.media_type)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it in pieces, of which the connection keeps few."""
        async with self._held:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            for piece in _pieces(bytes(self.body)):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _pieces(whole: bytes) -> Iterator[bytes]:
    for start in range(0, len(whole), _PIECE_BYTES):
        yield whole[start : start + _PIECE_BYTES]


def event_of(value: object, *, id_: str = "", name: str = "") -> bytes:
    """Return a server-sent event with a value as JSON."""
    head = (f"event: {name}\n" if name else "") + (f"id: {id_}\n" if id_ else "")
    return b"%bdata: %b\n\n" % (head.encode(), jsontext.dumps(value))


class OpenStreams:
    """The streams of a process; they end when it stops."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._turns = FairSemaphore(most=MAX_STREAMS, each=MAX_STREAMS_EACH)
        self._stopping = stopping

    def check_room(self, client: Client) -> None:
        """Raise RequestRefused (429) if a client would have to wait for its stream."""
        if self._turns.is_full(client.name):
            raise RequestRefused(
                429,
                f"Too many open streams: at most {MAX_STREAMS}, of which {MAX_STREAMS_EACH} per"
                " client.",
                code="too_many_streams",
            )

    async def in_turn(
        self, client: Client, chunks: AsyncGenerator[bytes, None]
    ) -> AsyncIterator[bytes]:
        """Yield chunks, as one stream of a client."""
        async with self._turns.of(client.name), aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    def events(self, client: Client, events: AsyncGenerator[bytes, None]) -> StreamingResponse:
        """Return a stream of events, with a comment in each silence; RequestRefused (429)."""
        self.check_room(client)
        return StreamingResponse(
            self.in_turn(client, self._live(events)),
            media_type=EVENTS,
            headers={"X-Accel-Buffering": "no"},
        )

    async def _live(self, events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        async with beside(_pump(events, queue)):
            silent_s = 0
            while not self._stopping.is_set():
                try:
                    async with asyncio.timeout(1):
                        chunk = await queue.get()
                except TimeoutError:
                    silent_s += 1
                    if silent_s % SILENCE_S == 0:
                        yield b": still here\n\n"
                    continue
                if chunk is None:
                    return
                silent_s = 0
                for piece in _pieces(chunk):
                    yield piece
                queue.task_done()


async def _pump(events: AsyncGenerator[bytes, None], queue: asyncio.Queue[bytes | None]) -> None:
    """Pass events on, each when the client has read the one before, and None at their end."""
    try:
        async with aclosing(events):
            async for event in events:
                await queue.put(event)
                await queue.join()
    finally:
        if not (task := asyncio.current_task()) or not task.cancelling():
            await queue.put(None)
