"""Spilled children on their way back: read while Redis has room, recalled with their position.

Nothing is read, and no consumer lives, while the frontier has nothing spilled. As with intake, the
position in the frontier is the truth, and the group's commit a hint.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import structlog

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Batch, OutOfRange
from crawlstream.bus.topics import forget_records
from crawlstream.errors import KafkaUnavailable
from crawlstream.keys import Topics
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.codec.spill import read_spill
from crawlstream_frontier.overflow import Moment, Overflow, OverflowState
from kafka_monitor.link_consumer import LOOK_EVERY_S, LinkConsumer, skipped
from kafka_monitor.rejections import RejectionPublisher

ROOM_EVERY_S = 0.1
"""How often Redis is asked for room while it has none."""
LINGER_S = 30.0
"""Time for which a consumer is kept when nothing is spilled any more."""
PASS_EVERY_S = 30.0
"""How often it is measured where the topic ends, so that what is lost there is found out."""
FORGET_EVERY_S = 3600.0
"""How often records are deleted that had come back one such time ago: a Redis that was restored
from a copy reads them again."""

log = structlog.get_logger()


class Recall(LinkConsumer):
    """Brings spilled requests back."""

    work, unreadable = "recall", "unreadable_spill"
    read = staticmethod(read_spill)
    hangs_after_s = None

    def __init__(
        self,
        overflow: Overflow,
        rejects: RejectionPublisher,
        *,
        kafka: Kafka,
        topics: Topics,
        group: str,
    ) -> None:
        named = kafka.named("kafka-monitor-overflow")
        super().__init__(named, topics.overflow, rejects, group=f"{group}.overflow")
        self._overflow = overflow
        self._topic_id = ""
        self._turn = asyncio.Lock()
        """Redis is asked for room before each call: no two calls at a time share the answer."""
        self._asked_at = self._forgot_at = self._needed_at = time.monotonic()
        self._forgettable: dict[int, int] = {}
        self._measured: tuple[Moment, str, Mapping[int, int]] | None = None
        self._measured_at = -PASS_EVERY_S

    async def _work(self) -> None:
        while True:
            if (await self._state()).spilled:
                self._needed_at = time.monotonic()
                await self._read()
            await self._forget()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _is_needed(self) -> bool:
        if time.monotonic() - self._asked_at > LOOK_EVERY_S:
            self._asked_at = time.monotonic()
            await self._note_passed()
            if (await self._state()).spilled:
                self._needed_at = time.monotonic()
        return time.monotonic() - self._needed_at < LINGER_S

    async def _apply(self, batch: Batch) -> None:
        for part in (await self._readable(batch)).parts():
            async with self._turn:
                while not (await self._state()).has_room:  # noqa: ASYNC110  Redis alone knows
                    await asyncio.sleep(ROOM_EVERY_S)
                await self._recall(part)

    async def _recall(self, part: LinkBatch) -> None:
        """Bring back what is in a part of a batch; PositionGap: nothing was done."""
        begun = time.monotonic()
        done = await self._overflow.recall(part)
        log.info(
            "recall",
            partition=part.kafka_partition,
            start=part.start,
            next=part.next,
            applied=done.applied,
            ignored=done.ignored,
            admitted=done.admitted,
            ms=round((time.monotonic() - begun) * 1000, 1),
        )

    async def _state(self) -> OverflowState:
        return await self.liveness.retry(self._overflow.state)

    async def _positions(self) -> Mapping[int, Mapping[tuple[str, int], int]]:
        return dict.fromkeys(self._reached, await self._overflow.positions())

    async def _note_passed(self) -> None:
        """Measure the end of the topic, and notify the frontier when recall has reached it.

        Requests that were spilled before and are not recalled by then are lost: the frontier fails
        them.
        """
        due = time.monotonic() - self._measured_at > PASS_EVERY_S
        if self._measured is None and self._topic_id and due:
            self._measured_at = time.monotonic()
            moment, topic_id = await self.liveness.retry(self._overflow.moment), self._topic_id
            try:
                found = await self._offsets()
            except KafkaUnavailable as error:
                log.warning("recall", outcome="not_measured", error=str(error))
                return
            if found:
                self._measured = moment, topic_id, {p: one.end for p, one in found.items()}
        if self._measured is not None:
            measured = self._measured
            if await self.liveness.retry(lambda: self._overflow.passed(*measured)):
                self._measured = None

    async def _locate(self, topic_id: str, partition: int) -> int:
        self._topic_id = topic_id
        position = (await self._overflow.positions()).get((topic_id, partition))
        if position is None:
            # Recalled requests may be lost with the position, in Redis' last second, although it is
            # committed. Therefore everything is read, and records that are obsolete are ignored.
            found = await self._offsets()
            position = await self._overflow.begin(topic_id, partition, found[partition].oldest)
        return position

    async def _decide(self, gap: OutOfRange) -> int | None:
        """Continue at the beginning of the topic if records to recall have been deleted.

        If the topic has lost its end, too: a request that comes back twice is ignored by its name.
        """
        if gap.has_lost_records:
            log.error("recall", outcome="lost_records", partition=gap.partition, at=gap.position)
            self._reached.pop(gap.partition, None)
            await self._overflow.rewind(gap.topic_id, gap.partition, gap.log_start)
            return gap.log_start
        await self._overflow.recall(skipped(gap))
        return gap.log_start

    async def _forget(self) -> None:
        if time.monotonic() - self._forgot_at < FORGET_EVERY_S:
            return
        self._forgot_at = time.monotonic()
        reached = {p: position for p, (_, position) in self._reached.items()}
        due, self._forgettable = self._forgettable, reached
        if due:
            try:
                await forget_records(self._kafka, self._topic, due)
            except KafkaUnavailable as error:
                log.warning("recall", outcome="not_deleted", error=str(error))
