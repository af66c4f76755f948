"""Overflow of Redis: children spilled to Kafka, and their recall.

A page whose children find Redis crowded is ended in two steps. First they are written to
``<prefix>.overflow``, in records that are each named by the worker, the token of the page's lease
and a number. When Kafka has them, the settle carries these numbers instead of the children, and
the frontier counts their links as admitted and waiting. Once Redis has room the records are
read again; ``recall`` puts their links, with dedupe and caps, and moves their position, in one
script.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crawlstream.errors import PositionGap
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.positions import begin_at, positions_in
from crawlstream_frontier.scripts import Scripts, our_errors


@dataclass(frozen=True, slots=True)
class RecallResult:
    """Result of a batch; all 0 for a repetition."""

    applied: int
    ignored: int
    """Records of runs that have ended, or of pages that are fetched again."""
    admitted: int
    """Links admitted; the others were duplicates or refused by a cap, and counted as such."""


@dataclass(frozen=True, slots=True)
class OverflowState:
    """Number of spilled links, and room for them."""

    spilled: int
    """Links that wait in Kafka."""
    has_room: bool
    """They may come back."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment of the frontier: its clock, and the epoch of Redis."""

    clock_ms: int
    redis_epoch: int


class Overflow:
    """The frontier's side of the topic: positions, and registered records.

    Every method raises RedisUnavailable when Redis gives no answer; repeating it is safe.
    """

    def __init__(self, scripts: Scripts) -> None:
        self._redis = scripts.redis
        self._keys = scripts.keys
        self._scripts = scripts

    async def state(self) -> OverflowState:
        """Return the number of spilled links, and whether they may come back."""
        spilled, is_roomy = unpack(await self._scripts.run("room"))
        return OverflowState(spilled, bool(is_roomy))

    async def positions(self) -> Mapping[tuple[str, int], int]:
        """Next offset to recall, by topic UUID and Kafka partition."""
        return await positions_in(self._redis, self._keys.overflow())

    async def begin(self, topic_id: str, kafka_partition: int, offset: int) -> int:
        """Set a partition's position to ``offset`` if it has none; return its position."""
        place = topic_id, kafka_partition
        return await begin_at(self._redis, self._keys.overflow(), place, offset)

    async def rewind(self, topic_id: str, kafka_partition: int, offset: int) -> None:
        """Have a partition recalled again from ``offset`` on: each record comes back once."""
        with our_errors():
            await self._redis.hset(self._keys.overflow(), f"{topic_id}:{kafka_partition}", offset)

    async def moment(self) -> Moment:
        """Return the present moment or one shortly before: later records register after it."""
        with our_errors():
            clock, epoch = await self._redis.hmget(self._keys.meta(), "clock", "life")
        return Moment(int(clock or 0), int(epoch or 0))

    async def passed(self, before: Moment, topic_id: str, ends: Mapping[int, int]) -> bool:
        """Report where each partition ended after a moment; return whether recall is done.

        True: recall has passed all links spilled by then, or a restart of Redis made it
        unknowable. False: recall is not that far yet; report the same again.
        """
        flat = [number for pair in ends.items() for number in pair]
        request = [before.redis_epoch, before.clock_ms, topic_id, flat]
        return await self._scripts.run("pass", pack(request)) != 0

    async def recall(self, batch: LinkBatch) -> RecallResult:
        """Apply records, with their position.

        PositionGap: records before the batch are missing; read again from its ``position``, -1
        if none is known.
        """
        records = [part for one in batch.records for part in (one.offset, [*one.head, one.flat])]
        answer = unpack(await self._scripts.run("recall", pack([*batch.place, records])))
        if answer[0] == b"GAP":
            raise PositionGap(answer[1])
        return RecallResult(*answer[1:])
