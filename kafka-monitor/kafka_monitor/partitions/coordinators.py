"""Coordinators of crawls, and the records that Kafka keeps for them.

A coordinator that goes back to an earlier moment has lost stops, expiries and endings, and the
numbers with which crawls have begun. Therefore `<prefix>.runs` receives each ending of a generation
before it takes effect, each beginning before partitions are notified of it, and each ending before
work for another run begins. In a new epoch of its Redis a coordinator does nothing before it has
received these records and the occasions that have taken effect; partition 0 receives schedules,
too. A mark of the new epoch comes first: records that an earlier epoch still writes behind it do
not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import structlog

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import marks_of, read_all
from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import Out, Record
from crawlstream.errors import NotRestored, Unavailable
from crawlstream.keys import Topics
from crawlstream.model.partitions.messages import CoordinatorMark
from crawlstream.wire import run_marks
from crawlstream_frontier.partition_calls.coordinator import Coordinator
from crawlstream_frontier.partitions.frontiers import Frontiers
from kafka_monitor.schedule_memory import ScheduleMemory

LOOK_EVERY_S = 1.0
"""How soon a coordinator that went back is noticed while nothing is fed."""

T = TypeVar("T")

log = structlog.get_logger()


class Coordinators:
    """Calls coordinators, and first restores the records that a coordinator may have lost."""

    def __init__(
        self, frontiers: Frontiers, sink: Sink, kafka: Kafka, topics: Topics, *, dedupe_ms: int
    ) -> None:
        """``dedupe_ms``: time for which the duplicate filter is kept after the last run."""
        self._frontiers = frontiers
        self._dedupe_ms = dedupe_ms
        self._sink = sink
        self._topic = topics.runs
        self._read = partial(read_all, kafka, topics.runs)
        self._schedules = ScheduleMemory(frontiers.root.schedules, kafka, topics)
        self._turns = [asyncio.Lock() for _ in range(len(frontiers))]
        self.liveness = Liveness("homes")

    async def run(self) -> None:
        """Restore whatever coordinator needs it, until cancelled."""
        while True:
            for partition in range(len(self._frontiers)):
                try:
                    await self.call(partition, lambda coordinator: coordinator.labels([]))
                except Unavailable as error:
                    log.warning("homes", outcome="waiting", partition=partition, error=str(error))
            self.liveness.beat()
            await asyncio.sleep(LOOK_EVERY_S)

    async def call(self, partition: int, question: Callable[[Coordinator], Awaitable[T]]) -> T:
        """Ask a coordinator, which is restored before if it has to be; Unavailable."""
        coordinator = self._frontiers[partition].coordinator
        try:
            return await question(coordinator)
        except NotRestored as error:
            async with self._turns[partition]:
                await self._restore(partition, error.redis_epoch)
        return await question(coordinator)

    async def note(self, partition: int, marks: Sequence[CoordinatorMark]) -> None:
        """Have Kafka remember what has begun or ends, before it takes effect; KafkaUnavailable."""
        await self._sink.send([self._out(partition, mark) for mark in marks])

    async def _restore(self, partition: int, redis_epoch: int) -> None:
        coordinator = self._frontiers[partition].coordinator
        try:
            await coordinator.labels([])
        except NotRestored as error:
            redis_epoch = error.redis_epoch
        else:
            return
        await self.note(partition, [CoordinatorMark(kind="life", redis_epoch=redis_epoch)])
        records = await self._read()
        await self._remind(partition, records)
        marks = self._marks(partition, records)
        if await coordinator.restore(redis_epoch, marks, dedupe_ms=self._dedupe_ms):
            log.warning("homes", outcome="restored", partition=partition, marks=len(marks))

    async def _remind(self, partition: int, records: Sequence[Record]) -> None:
        """Send occasions that took effect in its runs; send schedules, too, to partition 0."""
        coordinator_of = self._frontiers.partitions.coordinator
        its = [mark for mark in marks_of(records) if coordinator_of(mark.crawl) == partition]
        if self._frontiers[partition] is self._frontiers.root:
            await self._schedules.recall(its)
        else:
            await self._frontiers[partition].schedules.remind(its)

    def _marks(self, partition: int, records: Sequence[Record]) -> Sequence[CoordinatorMark]:
        """Return marks of its crawls, also of the coordinators before the frontier was moved."""
        values = [
            record.value
            for record in records
            if record.value and (record.key or b"").startswith(Topics.COORDINATOR_KEYS)
        ]
        at_coordinator = self._frontiers.partitions.coordinator
        marks = run_marks.surviving(values)
        return [mark for mark in marks if mark.crawl and at_coordinator(mark.crawl) == partition]

    def _out(self, partition: int, mark: CoordinatorMark) -> Out:
        value, key = (
            run_marks.encode_coordinator_mark(partition, mark),
            Topics.coordinator_key(partition, mark),
        )
        return Out(self._topic, value, key, partition=0)
