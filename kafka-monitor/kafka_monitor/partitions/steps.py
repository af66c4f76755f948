"""Calls of coordinators and partitions with records: one coordinator, one partition at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from crawlstream.model.effects import Command, Effect, IntakeBatch, ScheduleChange, Seed
from crawlstream.model.partitions.messages import (
    Begun,
    ContextKey,
    Enrolled,
    SeedsOf,
    Stamp,
    Taken,
    ToNote,
)
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.partitions.labelling import Labelling
from kafka_monitor.partitions.coordinators import Coordinators
from kafka_monitor.partitions.cursors import Cursors
from kafka_monitor.partitions.unavailable_partitions import CoordinatorUnavailable

DRAW_AGAIN_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Pauses between attempts to draw credits for a seed."""


class Steps:
    """Each call can be repeated; RedisUnavailable: the server that was called does not answer."""

    def __init__(
        self, frontiers: Frontiers, coordinators: Coordinators, labelling: Labelling
    ) -> None:
        self._frontiers = frontiers
        self._coordinators = coordinators
        self._labelling = labelling

    def coordinators_of(self, records: Sequence[Effect]) -> Mapping[int, int]:
        """By offset. Schedules are in partition 0; what else concerns no crawl, any could do."""
        coordinator_of = self._frontiers.partitions.coordinator
        return {
            record.offset: coordinator_of(record.crawl)
            if isinstance(record, Seed | Command) and record.crawl
            else 0
            for record in records
        }

    async def enroll(self, coordinator: int, batch: IntakeBatch, cursors: Cursors) -> Enrolled:
        """Give one coordinator its records; note on the way what Kafka must remember."""
        records = [
            record
            for record in batch.records
            if not isinstance(record, ScheduleChange) or record.offset >= cursors.past
        ]
        start = min(batch.start, cursors.enrolled.get(coordinator, batch.start))
        batch = replace(batch, start=start, records=records)
        times = {record.offset: record.timestamp_ms for record in batch.records}
        noted: dict[int, ToNote] = {}
        begun: list[Begun] = []
        while True:
            done = await self._coordinators.call(
                coordinator, lambda its: its.enroll(batch, noted, begun)
            )
            if done.note is None and not done.begun:
                cursors.enrolled[coordinator] = max(
                    cursors.enrolled.get(coordinator, 0), batch.next
                )
                return done
            begun[:] = done.begun
            marks = [one.mark() for one in begun]
            if done.note is not None:
                assert done.note.offset is not None
                noted[done.note.offset] = done.note
                marks.append(done.note.mark(times[done.note.offset]))
            await self._coordinators.note(coordinator, marks)

    async def take(
        self, partition: int, batch: IntakeBatch, stamps: Mapping[int, Stamp], seeds_of: SeedsOf
    ) -> Taken:
        """Have a partition take seeds, with the credits that they need; FrontierFull."""
        reading, applied = self._frontiers[partition].reading, 0
        while True:
            done = await reading.take(batch, stamps, seeds_of)
            self._labelling.request(partition, done.unconfirmed)
            applied += done.applied
            if done.short is None:
                return replace(done, applied=applied)
            await self._draw(partition, done.short)

    async def _draw(self, partition: int, short: ContextKey) -> None:
        """Have credits of a page limit carried that a seed waits for; RedisUnavailable: not yet."""
        for pause_s in DRAW_AGAIN_S:
            if any(await self._labelling.credits.draw(partition, short)):
                return
            await asyncio.sleep(pause_s)
        name = self._frontiers.name(partition)
        coordinator = self._frontiers.partitions.coordinator(short.crawl)
        raise CoordinatorUnavailable(
            f"a seed of {short.crawl} waits for credits in {name}", coordinator
        )
