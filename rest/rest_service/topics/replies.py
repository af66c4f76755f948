"""Replies of the cluster by uuid: passed to the waiting clients, else kept for a poll."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import orjson
import structlog

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.connect import Kafka
from crawlstream.bus.tail import end_offsets, offsets_since, read_topic
from rest_service.topics.page_replies import PageReplies, page_reply_of

KEPT_S = 3600.0
_CATCHING_UP_S = 60.0
"""Seconds after which the last hour counts as read: Kafka may have deleted its end meanwhile."""
KEPT_REPLIES = 10_000
KEPT_BYTES = 64 * 1024 * 1024
"""Limits of replies that wait for a poll; above a limit, the oldest are dropped first."""

MaySee = Callable[[object], bool]
"""Return True if the client may see replies about an application."""
_Expected = tuple[asyncio.Future[bytes], MaySee]

log = structlog.get_logger()


def _everything(_appid: object) -> bool:
    return True


class Replies:
    """Passes each reply to the clients that expect it; keeps the others within bounds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expected: dict[str, list[_Expected]] = {}
        self._kept: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._bytes = 0

    @contextmanager
    def expecting(
        self, uuid: str, may_see: MaySee = _everything
    ) -> Iterator[asyncio.Future[bytes]]:
        """Yield a future of the reply for the length of the block; enter it before the request.

        The future ignores replies about applications that the client may not see.
        """
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        waiting = self._expected.setdefault(uuid, [])
        waiting.append((future, may_see))
        try:
            yield future
        finally:
            waiting.remove((future, may_see))
            if not waiting:
                self._expected.pop(uuid, None)

    def arrived(self, uuid: str, reply: bytes) -> None:
        """Pass on or keep a reply that has arrived, as bytes of JSON."""
        waiting = [
            future
            for future, may_see in self._expected.get(uuid, ())
            if not future.done() and may_see(_appid_of(reply))
        ]
        for future in waiting:
            future.set_result(reply)
        if not waiting:
            self._keep(uuid, reply)

    def take(self, uuid: str, may_see: MaySee = _everything) -> bytes | None:
        """Remove and return the kept reply; None if there is none that the client may see."""
        self._drop_old()
        if uuid not in self._kept or not may_see(_appid_of(self._kept[uuid][1])):
            return None
        _, reply = self._kept.pop(uuid)
        self._bytes -= len(reply)
        return reply

    @property
    def kept_bytes(self) -> int:
        """Bytes of the replies that wait for a poll."""
        return self._bytes

    def _keep(self, uuid: str, reply: bytes) -> None:
        self._forget(uuid)
        self._kept[uuid] = (self._clock(), reply)
        self._bytes += len(reply)
        self._drop_old()

    def _drop_old(self) -> None:
        oldest = self._clock() - KEPT_S
        while self._kept:
            uuid, (at, _) = next(iter(self._kept.items()))
            if at > oldest and len(self._kept) <= KEPT_REPLIES and self._bytes <= KEPT_BYTES:
                return
            self._forget(uuid)

    def _forget(self, uuid: str) -> None:
        _, reply = self._kept.pop(uuid, (0.0, b""))
        self._bytes -= len(reply)


class ReplyReader:
    """The only reader of the outbound topic; it resumes where it was interrupted."""

    def __init__(
        self, kafka: Kafka, topic: str, replies: Replies, pages: PageReplies | None = None
    ) -> None:
        """``pages`` gets the replies about pages, also those of the last hour."""
        self.liveness = Liveness("replies")
        self._pages = PageReplies() if pages is None else pages
        self._ends: dict[int, int] = {}
        self._catching_up_until = math.inf
        self.is_reading = False
        """True if the reply to a request sent now would be read."""
        self._kafka = kafka
        self._topic = topic
        self._replies = replies
        self._offsets: dict[int, int] = {}

    @property
    def has_caught_up(self) -> bool:
        """Return whether all replies from before the start are read."""
        if not self.is_reading:
            return False
        is_read = all(self._offsets.get(number, 0) >= end for number, end in self._ends.items())
        return is_read or time.monotonic() > self._catching_up_until

    async def run(self) -> None:
        """Read until cancelled; retry while Kafka is unavailable."""
        await self.liveness.retry(self._find_begin)
        self.is_reading = True
        self._catching_up_until = time.monotonic() + _CATCHING_UP_S
        while True:
            await self.liveness.retry(self._read)

    async def _find_begin(self) -> None:
        self._ends = dict(await end_offsets(self._kafka, self._topic))
        hour_ago_ms = int((time.time() - KEPT_S) * 1000)
        self._offsets = dict(await offsets_since(self._kafka, self._topic, hour_ago_ms))

    async def _read(self) -> None:
        async for record in read_topic(self._kafka, self._topic, offsets=dict(self._offsets)):
            self._offsets[record.partition] = record.offset + 1
            is_old = record.offset < self._ends.get(record.partition, 0)
            if record.value:
                self._pass_on(record.value, is_old=is_old)

    def _pass_on(self, value: bytes, *, is_old: bool) -> None:
        if (page := page_reply_of(value)) is not None:
            self._pages.arrived(page)
        elif not is_old and (uuid := _uuid_of(value)):
            self._replies.arrived(uuid, value)


def _uuid_of(value: bytes) -> str | None:
    """Return the uuid of the request that a reply answers; None if it has none."""
    uuid = _field(value, "uuid")
    return uuid if isinstance(uuid, str) else None


def _appid_of(value: bytes) -> object:
    return _field(value, "appid")


def _field(value: bytes, name: str) -> object:
    try:
        reply = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    return reply.get(name) if isinstance(reply, dict) else None
