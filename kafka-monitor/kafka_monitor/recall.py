"""Spilled children on their way back: read while Redis has room, recalled with their position.

Nothing is read, and no consumer lives, while the frontier has nothing spilled. As with intake, the
position in the frontier is the truth, and the group's commit a hint.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial

import structlog

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_source
from crawlstream.bus.history import partition_offsets
from crawlstream.bus.protocols import Source
from crawlstream.bus.records import Batch, OutOfRange
from crawlstream.bus.topics import forget_records
from crawlstream.errors import KafkaUnavailable
from crawlstream.keys import Topics
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.codec.spill import read_spill
from crawlstream_frontier.overflow import Moment, Overflow, OverflowState
from kafka_monitor.consumer import PartitionConsumer
from kafka_monitor.readable_links import readable_in, skipped
from kafka_monitor.rejections import RejectionPublisher

POLL_S = 0.5
LOOK_EVERY_S = 2.0
"""How soon it is noticed that something was spilled, and that Redis lost what it had recalled."""
ROOM_EVERY_S = 0.1
"""How often Redis is asked for room while it has none."""
LINGER_S = 30.0
"""A consumer is kept for so long when nothing is spilled any more."""
PASS_EVERY_S = 30.0
"""How often it is measured where the topic ends, so that what is lost there is found out."""
FORGET_EVERY_S = 3600.0
"""How often records are deleted that had come back one such time ago: a Redis that was restored
from a copy reads them again."""
FAILED_PAUSE_S = 5.0

log = structlog.get_logger()


class Recall:
    """Brings spilled requests back; several instances may run in the same group."""

    def __init__(
        self,
        overflow: Overflow,
        rejects: RejectionPublisher,
        *,
        kafka: Kafka,
        topics: Topics,
        group: str,
    ) -> None:
        self._overflow = overflow
        self._rejects = rejects
        self._topic = topics.overflow
        self._kafka = kafka.named("kafka-monitor-overflow")
        self._group = f"{group}.overflow"
        self._topic_id = ""
        self._recalled: dict[int, int] = {}
        self._looked_at = self._forgot_at = time.monotonic()
        self._forgettable: dict[int, int] = {}
        self._measured: tuple[Moment, str, Mapping[int, int]] | None = None
        self._measured_at = -PASS_EVERY_S
        self.liveness = Liveness("recall")

    async def run(self) -> None:
        """Work until cancelled, which harms nothing: what is at hand is simply read again."""
        while True:
            try:
                await self._work()
            except Exception:
                log.exception("recall", outcome="failed")
                await asyncio.sleep(FAILED_PAUSE_S)

    async def _work(self) -> None:
        while True:
            if (await self._state()).spilled:
                async with self._source() as source:
                    consumer = PartitionConsumer(source, self._locate, liveness=self.liveness)
                    await self._recall_from(consumer)
            await self._forget()
            await asyncio.sleep(LOOK_EVERY_S)

    def _source(self) -> Source:
        return make_source(
            self._kafka,
            self._topic,
            group=self._group,
            locate=self._locate,
            on_out_of_range=self._decide,
        )

    async def _recall_from(self, consumer: PartitionConsumer) -> None:
        needed_at = time.monotonic()
        while time.monotonic() - needed_at < LINGER_S:
            for batch in await consumer.poll(POLL_S):
                await self._take(consumer, batch)
            self.liveness.beat()
            if time.monotonic() - self._looked_at > LOOK_EVERY_S:
                self._looked_at = time.monotonic()
                await self._look_after(consumer)
                await self._note_passed()
                if (await self._state()).spilled:
                    needed_at = time.monotonic()

    async def _take(self, consumer: PartitionConsumer, batch: Batch) -> None:
        read = partial(
            readable_in, batch, read_spill, self._rejects, work="recall", reason="unreadable_spill"
        )
        spills = await self.liveness.retry(read)
        for part in spills.parts():
            await self._wait_for_room(consumer)
            if not await consumer.apply(batch, partial(self._recall, part)):
                return
            self._recalled[batch.partition] = part.next
        await consumer.commit(batch.partition, batch.next)

    async def _recall(self, part: LinkBatch) -> None:
        """Bring back what is in a part of a batch; PositionGap: nothing was done."""
        begun = time.monotonic()
        done = await self.liveness.retry(partial(self._overflow.recall, part))
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

    async def _wait_for_room(self, consumer: PartitionConsumer) -> None:
        if (await self._state()).has_room:
            return
        consumer.pause()
        while True:
            await asyncio.sleep(ROOM_EVERY_S)
            if (await self._state()).has_room:
                break
        consumer.resume()

    async def _state(self) -> OverflowState:
        return await self.liveness.retry(self._overflow.state)

    async def _look_after(self, consumer: PartitionConsumer) -> None:
        """Notice that Redis has lost its last seconds, or everything, also while nothing comes."""
        known = await self.liveness.retry(self._overflow.positions)
        for partition, recalled in list(self._recalled.items()):
            if known.get((self._topic_id, partition), -1) < recalled:
                del self._recalled[partition]
                await consumer.place(self._topic_id, partition)

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
                found = await partition_offsets(self._kafka, self._topic, group=self._group)
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
            found = await partition_offsets(self._kafka, self._topic, group=self._group)
            position = await self._overflow.begin(topic_id, partition, found[partition].oldest)
        return position

    async def _decide(self, gap: OutOfRange) -> int | None:
        """Continue at the beginning of the topic if records to recall have been deleted.

        If the topic has lost its end, too: a request that comes back twice is ignored by its name.
        """
        if gap.has_lost_records:
            log.error("recall", outcome="lost_records", partition=gap.partition, at=gap.position)
            self._recalled.pop(gap.partition, None)
            await self._overflow.rewind(gap.topic_id, gap.partition, gap.log_start)
            return gap.log_start
        await self._overflow.recall(skipped(gap))
        return gap.log_start

    async def _forget(self) -> None:
        if time.monotonic() - self._forgot_at < FORGET_EVERY_S:
            return
        self._forgot_at = time.monotonic()
        due, self._forgettable = self._forgettable, dict(self._recalled)
        if due:
            try:
                await forget_records(self._kafka, self._topic, due)
            except KafkaUnavailable as error:
                log.warning("recall", outcome="not_deleted", error=str(error))
