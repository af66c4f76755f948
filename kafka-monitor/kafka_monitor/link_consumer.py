"""Consumer of a topic of links: reads from the frontier's positions, and applies each record once.

One consumer serves both topics: ``<prefix>.overflow`` of a frontier in one Redis and
``<prefix>.links`` of one in several. Each Kafka partition is applied by a task of its own. While
its Redis is full, or does not answer, no more of it is read; partitions of other Redis go on.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import structlog

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_source
from crawlstream.bus.history import PartitionOffsets, partition_offsets
from crawlstream.bus.protocols import Source
from crawlstream.bus.records import Batch, OutOfRange
from crawlstream.errors import FrontierFull, PositionGap, Unavailable
from crawlstream.tasks import end
from crawlstream_frontier.codec.link_batch import LinkBatch, LinkRecord
from crawlstream_frontier.partitions.answers import ANSWER_S
from kafka_monitor.rejections import RejectedRecord, RejectionPublisher

POLL_S = 0.5
LOOK_EVERY_S = 2.0
"""Seconds until it is noticed that a Redis has gone back, also while no record arrives for it."""
FAILED_PAUSE_S = 5.0

log = structlog.get_logger()


def skipped(gap: OutOfRange) -> LinkBatch:
    """Return what Kafka has deleted, as a batch without records: it moves the position."""
    place = gap.topic_id, gap.partition
    return LinkBatch(*place, start=gap.position, next=gap.log_start, records=())


class LinkConsumer(ABC):
    """Reads one topic of links into a frontier; several instances may run in the group."""

    work: str
    """Name of the work in logs and in health."""
    unreadable: str
    """Reason under which records are rejected that cannot be read."""
    hangs_after_s: float | None = ANSWER_S
    """How long the next batch of a partition waits for the one before, while others are read; None:
    as long as that takes, because all partitions have one Redis."""
    read: Callable[[int, bytes | None], LinkRecord]
    """Reads a record by its offset and value; ValueError gives the fault."""

    def __init__(
        self, kafka: Kafka, topic: str, rejects: RejectionPublisher, *, group: str
    ) -> None:
        self.liveness = Liveness(self.work)
        self._reached: dict[int, tuple[str, int]] = {}
        """Topic UUID and position, by partition that was ever assigned to this process."""
        self._rejects = rejects
        self._kafka = kafka
        self._topic = topic
        self._group = group
        self._taking: dict[int, asyncio.Task[None]] = {}
        """The batch that is being applied, by partition."""
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = time.monotonic()

    @abstractmethod
    async def _locate(self, topic_id: str, partition: int) -> int:
        """Return where a Kafka partition goes on; Unavailable: call again."""

    @abstractmethod
    async def _apply(self, batch: Batch) -> None:
        """Let a batch take effect; PositionGap, Unavailable, FrontierFull: some of it has not."""

    @abstractmethod
    async def _decide(self, gap: OutOfRange) -> int | None:
        """Return where a partition goes on whose next record is gone; None: it stays paused."""

    @abstractmethod
    async def _positions(self) -> Mapping[int, Mapping[tuple[str, int], int]]:
        """Return the known positions, by Kafka partition, of those whose Redis answers."""

    async def run(self) -> None:
        """Work until cancelled, at any moment: unfinished records are read again."""
        while True:
            try:
                await self._work()
            except Exception:
                log.exception(self.work, outcome="failed")
                await asyncio.sleep(FAILED_PAUSE_S)

    async def _work(self) -> None:
        await self._read()

    async def _is_needed(self) -> bool:
        return True

    async def _read(self) -> None:
        """Read and apply as a member of the group, as long as this is needed."""
        source = make_source(
            self._kafka,
            self._topic,
            group=self._group,
            locate=self._place,
            on_out_of_range=self._decide,
        )
        async with source:
            try:
                while await self._is_needed():
                    for batch in await source.poll(POLL_S):
                        await self._begin(source, batch)
                    self._note_ended()
                    self._look_after(source)
                    self.liveness.beat()
            finally:
                await end([*self._taking.values(), *([self._looking] if self._looking else [])])
                self._taking.clear()
                self._looking = None

    async def _readable(self, batch: Batch) -> LinkBatch:
        """Return the records that can be read, and report the others; KafkaUnavailable."""
        found: list[LinkRecord] = []
        rejected: list[RejectedRecord] = []
        for record in batch.records:
            try:
                found.append(self.read(record.offset, record.value))
            except ValueError as error:
                log.error(self.work, outcome="unreadable", offset=record.offset, why=str(error))  # noqa: TRY400  a sentence for people
                rejected.append(RejectedRecord(record, self.unreadable, [f"$: {error}"]))
        await self._rejects.publish(rejected)
        place = batch.topic_id, batch.partition
        return LinkBatch(*place, start=batch.start, next=batch.next, records=found)

    async def _offsets(self) -> Mapping[int, PartitionOffsets]:
        """Return what Kafka has of the topic, by partition; KafkaUnavailable."""
        return await partition_offsets(self._kafka, self._topic, group=self._group)

    async def _place(self, topic_id: str, partition: int) -> int:
        position = await self._locate(topic_id, partition)
        self._reached[partition] = topic_id, position
        return position

    async def _begin(self, source: Source, batch: Batch) -> None:
        """Have a batch applied after the one before it; one that hangs is not waited for again."""
        before = self._taking.get(batch.partition)
        if before and not (await asyncio.wait({before}, timeout=self.hangs_after_s))[0]:
            source.locate(batch.topic_id, batch.partition)
            return
        self._note_ended()
        self._taking[batch.partition] = asyncio.create_task(self._take(source, batch))

    def _note_ended(self) -> None:
        """Forget batches that have been applied; raise the unexpected error of one."""
        for partition in [p for p, task in self._taking.items() if task.done()]:
            self._taking.pop(partition).result()

    def _look_after(self, source: Source) -> None:
        """Have partitions read again whose Redis has lost its last seconds, or everything.

        Links are applied during the look: a Redis that hangs answers after seconds.
        """
        if self._looking is None:
            if time.monotonic() - self._looked_at >= LOOK_EVERY_S:
                self._looking = asyncio.create_task(self._look(source))
        elif self._looking.done():
            looking, self._looking = self._looking, None
            self._looked_at = time.monotonic()
            looking.result()

    async def _look(self, source: Source) -> None:
        # Records applied while the calls run are not a reason to read again.
        before = {**self._reached}
        try:
            answers = await self._positions()
        except Unavailable:
            return
        for partition, known in answers.items():
            topic_id, reached = before.get(partition, ("", -1))
            if known.get((topic_id, partition), -1) < reached:
                log.warning(self.work, outcome="gone_back", partition=partition, reached=reached)
                self._reached.pop(partition, None)
                source.locate(topic_id, partition)

    async def _take(self, source: Source, batch: Batch) -> None:
        work, partition = self.work, batch.partition
        try:
            await self._apply(batch)
        except PositionGap as gap:
            log.warning(work, outcome="gap", partition=partition, position=gap.position)
        except (Unavailable, FrontierFull) as error:
            log.warning(work, outcome="waiting", partition=partition, error=str(error))
        else:
            self._reached[partition] = batch.topic_id, batch.next
            await source.commit({partition: batch.next})
            return
        source.locate(batch.topic_id, partition)
