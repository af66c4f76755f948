"""The frontier's two streams: actions that wait for an answer, and records to be published.

Both are read by a consumer group, so that several redis-monitors share them and the work of one
that died is taken over. A record is deleted only when it is reported as answered or published.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from crawlstream.keys import FrontierKeys
from crawlstream.model.effects import OutboxRecord, OutboxSchedule, PendingAction
from crawlstream.tasks import beside
from crawlstream_frontier.codec.streams import Fields, unpack_action, unpack_outbox_record
from crawlstream_frontier.scripts import Scripts, our_errors

GROUP = "redis-monitor"
TAKE_OVER_MS = 5_000
"""Time after which a record that was read but not finished is taken over; also the interval."""
GONE_MS = 3_600_000
"""Time after its last call when a reader without unfinished records is removed."""

_GONE = ("NOGROUP ", "UNBLOCKED ", "no such key")
"""Beginnings of errors that a reader gets, also while it waits, when Redis was emptied."""

log = structlog.get_logger()
T = TypeVar("T")
Records = Sequence[tuple[bytes, Fields]]


class Streams:
    """Both streams as one consumer reads them.

    Give it a client of its own whose socket timeout is longer than ``block_ms``.
    """

    def __init__(self, redis: Redis, keys: FrontierKeys, consumer: str) -> None:
        self._redis: Any = redis
        self._run = Scripts(redis, keys).run
        self._keys = keys
        self._consumer = consumer
        self._look_at: dict[str, float] = {}

    async def actions(self, *, count: int = 50, block_ms: int = 2_000) -> Sequence[PendingAction]:
        """Actions to answer: those of a dead reader first, then new ones.

        Records of a dead reader come one by one, so that an action that kills its reader does
        not count as a try of the others. Waits up to ``block_ms`` (0: not at all).
        """
        return await self._read(self._keys.actions(), count, block_ms, unpack_action)

    async def answered(self, ids: Sequence[str]) -> None:
        """Delete actions whose replies are in Kafka."""
        await self._finish(self._keys.actions(), ids)

    async def records(
        self, *, count: int = 100, block_ms: int = 2_000
    ) -> Sequence[OutboxRecord | OutboxSchedule]:
        """Return records to publish: those of a dead reader first, then new ones; may wait."""
        return await self._read(self._keys.outbox(), count, block_ms, unpack_outbox_record)

    async def published(self, ids: Sequence[str]) -> None:
        """Delete records that are in Kafka."""
        await self._finish(self._keys.outbox(), ids)

    @contextlib.asynccontextmanager
    async def keeping(self, ids: Sequence[str]) -> AsyncIterator[None]:
        """Keep these actions from being taken over during the block, however long it takes."""
        async with beside(self._keep(self._keys.actions(), ids)):
            yield

    @contextlib.asynccontextmanager
    async def keeping_records(self, ids: Sequence[str]) -> AsyncIterator[None]:
        """Keep these records to be published from being taken over during the block."""
        async with beside(self._keep(self._keys.outbox(), ids)):
            yield

    async def _keep(self, stream: str, ids: Sequence[str]) -> None:
        """Renew the claim on own records; it does not count as another try."""
        while ids:
            await asyncio.sleep(TAKE_OVER_MS / 4000)
            with contextlib.suppress(RedisError):
                ours = await self._redis.xpending_range(
                    stream,
                    GROUP,
                    min=ids[0],
                    max=ids[-1],
                    count=len(ids),
                    consumername=self._consumer,
                )
                kept = [item["message_id"] for item in ours]
                if kept:
                    await self._redis.xclaim(stream, GROUP, self._consumer, 0, kept, justid=True)

    async def _read(
        self, stream: str, count: int, block_ms: int, build: Callable[[bytes, Fields, int], T]
    ) -> Sequence[T]:
        with our_errors():
            try:
                return await self._read_group(stream, count, block_ms, build)
            except ResponseError as error:
                if not str(error).startswith(_GONE):
                    raise
            await self._create_group(stream)
            return await self._read_group(stream, count, block_ms, build)

    async def _read_group(
        self, stream: str, count: int, block_ms: int, build: Callable[[bytes, Fields, int], T]
    ) -> Sequence[T]:
        if time.monotonic() >= self._look_at.get(stream, 0):
            at_once = 1 if stream == self._keys.actions() else count
            left_over = await self._take_over(stream, at_once)
            if left_over:
                attempts = await self._attempts(stream, left_over)
                return [build(id_, fields, attempts.get(id_, 1)) for id_, fields in left_over]
        answer = await self._redis.xreadgroup(
            GROUP, self._consumer, {stream: ">"}, count=count, block=block_ms or None
        )
        return [build(id_, fields, 1) for id_, fields in _records_of(answer)]

    async def _take_over(self, stream: str, count: int) -> Records:
        """Return records of a dead reader; while there are any, the next check is immediate."""
        answer = await self._redis.xautoclaim(
            stream, GROUP, self._consumer, min_idle_time=TAKE_OVER_MS, count=count
        )
        records = [(id_, fields) for id_, fields in answer[1] if fields]
        if stream not in self._look_at:
            await self._forget_readers(stream)
        self._look_at[stream] = time.monotonic() + (0 if records else TAKE_OVER_MS / 1000)
        return records

    async def _forget_readers(self, stream: str) -> None:
        for reader in await self._redis.xinfo_consumers(stream, GROUP):
            if reader["idle"] > GONE_MS and not reader["pending"]:
                await self._redis.xgroup_delconsumer(stream, GROUP, reader["name"])

    async def _attempts(self, stream: str, records: Records) -> Mapping[bytes, int]:
        pending = await self._redis.xpending_range(
            stream, GROUP, min=records[0][0], max=records[-1][0], count=len(records) * 2
        )
        return {item["message_id"]: int(item["times_delivered"]) for item in pending}

    async def _create_group(self, stream: str) -> None:
        name = stream.removeprefix(self._keys.tag)
        if await self._run("group", name, GROUP):
            log.info("create_group", stream=name)

    async def _finish(self, stream: str, ids: Sequence[str]) -> None:
        """Delete records permanently.

        A full Redis takes no transactions, whatever is in them. A record that is deleted, but not
        acknowledged yet, is skipped by the reader that takes it over.
        """
        if not ids:
            return
        with our_errors():
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.xdel(stream, *ids)
                pipe.xack(stream, GROUP, *ids)
                await pipe.execute()


def _records_of(answer: Any) -> Records:
    """Records of one stream: RESP3 answers ``{name: [records]}``, RESP2 ``[[name, records]]``."""
    if not answer:
        return []
    if isinstance(answer, dict):
        (records,) = next(iter(answer.values()))
    else:
        ((_, records),) = answer
    return cast(Records, records)
