"""A partition of the frontier that was left behind reads what the others have read without it.

It goes on from its own positions, by a reader of its own, until it is where the others are. Where
it was away as a coordinator, the seeds of its crawls are taken by the other partitions on the way.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial

import structlog

from crawlstream.boot.failpoints import failpoint
from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Batch, Record
from crawlstream.bus.tail import end_offsets, read_topic
from crawlstream.errors import FrontierFull, PositionGap, Unavailable
from crawlstream.model.effects import Effect, IntakeBatch, Seed
from crawlstream.model.partitions.messages import SeedsOf, Taken
from crawlstream.retry import Backoff, until_available
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.intake import BYTES_PER_CALL, RECORDS_PER_CALL
from crawlstream_frontier.partitions.frontiers import Frontiers
from kafka_monitor.partitions.cursors import Cursors
from kafka_monitor.partitions.steps import Steps
from kafka_monitor.partitions.unavailable_partitions import UnavailablePartitions
from kafka_monitor.rejections import RejectionPublisher, not_admitted
from kafka_monitor.request_intake import RequestIntake

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 2.0

log = structlog.get_logger()


class CatchUp:
    """Has partitions catch up, all at the same time."""

    def __init__(
        self,
        frontiers: Frontiers,
        steps: Steps,
        leaving: UnavailablePartitions,
        *,
        intake: RequestIntake,
        rejects: RejectionPublisher,
        kafka: Kafka,
        topic: str,
    ) -> None:
        self._frontiers = frontiers
        self._steps = steps
        self._leaving = leaving
        self._intake = intake
        self._rejects = rejects
        self._kafka = kafka
        self._topic = topic

    async def run(self, cursors: Cursors, partition: int) -> None:
        """Work until it is where the others are; cancelling it harms nothing."""
        pauses = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            try:
                # Find out first whether the partition answers: nothing else waits for that.
                begin = await self._begin(cursors, partition)
                if begin < cursors.reached:
                    await self._read(cursors, partition, begin)
                    pauses.reset()
                    continue
                if await self._has_caught_up(cursors, partition):
                    return
            except (Unavailable, FrontierFull, PositionGap) as error:
                log.info(
                    "catch_up", outcome="waiting", frontier_partition=partition, why=str(error)
                )
            except Exception:
                log.exception("catch_up", outcome="failed", frontier_partition=partition)
            await asyncio.sleep(next(pauses))

    async def _has_caught_up(self, cursors: Cursors, partition: int) -> bool:
        """Return whether it is where the others are, who have it with them again then."""
        async with cursors.turn:
            if await self._begin(cursors, partition) < cursors.reached:
                return False
            self._leaving.rejoin(cursors, partition)
            return True

    async def _begin(self, cursors: Cursors, partition: int) -> int:
        """Return where it has to go on, and others that could not take seeds of its crawls have to.

        RedisUnavailable: it is away still.
        """
        place, oldest = cursors.place, cursors.oldest
        unavailable = cursors.unavailable - {partition}

        async def its_own(frontier: Frontier) -> int:
            enrolled = await frontier.coordinator.begin(*place, oldest)
            reached = await frontier.reading.reached(*place, oldest)
            cursors.enrolled[partition] = enrolled
            cursors.taken[partition] = reached.of_all(but=unavailable)
            return min(enrolled, reached.lowest(but=unavailable))

        async def of_its_crawls(frontier: Frontier) -> int:
            reached = await frontier.reading.reached(*place, oldest)
            return reached.late.get(partition, reached.position)

        asked = {p: of_its_crawls(self._frontiers[p]) for p in self._others(cursors, partition)}
        asked[partition] = its_own(self._frontiers[partition])
        found = await self._leaving.each(cursors, asked, waits_for=partition)
        return min(found.values())

    def _others(self, cursors: Cursors, partition: int) -> list[int]:
        """Return partitions that could not take seeds of its crawls, if it was unavailable."""
        if not cursors.left[partition].is_unavailable:
            return []
        return [p for p in range(len(self._frontiers)) if p not in cursors.left]

    async def _read(self, cursors: Cursors, partition: int, begin: int) -> None:
        """Let it read up to where the others are now."""
        async for batch in self._batches(cursors, begin):
            for part in [*batch.chunks(self._intake.most(batch), BYTES_PER_CALL)] or [batch]:
                effects = await self._intake.judge_again(part)
                await self._let(partial(self._settle, cursors, partition, part, effects))

    async def _batches(self, cursors: Cursors, begin: int) -> AsyncIterator[Batch]:
        topic_id, number = cursors.place
        until = cursors.reached
        ends = await end_offsets(self._kafka, self._topic)
        records: list[Record] = []
        offsets = {**ends, number: begin}
        reading = read_topic(
            self._kafka, self._topic, offsets=offsets, until={number: until}, follow=False
        )
        async with aclosing(reading):
            async for record in reading:
                if record.partition == number and record.offset < until:
                    records.append(record)
                if len(records) == RECORDS_PER_CALL:
                    yield Batch(topic_id, number, begin, record.offset + 1, records)
                    begin, records = record.offset + 1, []
        if begin < until:
            yield Batch(topic_id, number, begin, until, records)

    async def _let(self, step: Callable[[], Awaitable[None]]) -> None:
        """Repeat a step while it lacks room or a server does not answer."""
        await until_available(
            step,
            backoff=Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S),
            on_wait=lambda error, _: log.info("catch_up", outcome="waiting", why=str(error)),
            errors=(Unavailable, FrontierFull),
        )

    async def _settle(
        self, cursors: Cursors, partition: int, part: Batch, effects: list[Effect]
    ) -> None:
        """Apply records, and report those that are refused."""
        left = cursors.left[partition]
        batch = IntakeBatch(
            topic_id=part.topic_id,
            kafka_partition=part.partition,
            start=part.start,
            next=part.next,
            records=effects,
        )
        left.telling = part.start, part.next
        refused = await self._bring_on(cursors, partition, batch)
        await self._rejects.publish(not_admitted(part.records, refused))
        left.telling = 0, 0
        if refused:
            await self._bring_on(cursors, partition, replace(batch, start=batch.next, records=()))

    async def _bring_on(
        self, cursors: Cursors, partition: int, batch: IntakeBatch
    ) -> Mapping[int, str]:
        """Let records take effect in it, and in others as far as it is their coordinator.

        Answers what was refused, by offset. Errors as of `DividedIntake.apply`.
        """
        coordinators, unavailable = (
            self._steps.coordinators_of(batch.records),
            cursors.unavailable - {partition},
        )
        is_asked_first = cursors.left[partition].is_unavailable
        takers = {partition, *self._others(cursors, partition)}
        by_coordinator, by_taker = (
            defaultdict[int, list[Effect]](list),
            defaultdict[int, list[Seed]](list),
        )
        for record in batch.records:
            coordinator = coordinators[record.offset]
            taker = self._frontiers.partitions.of(record.domain) if isinstance(record, Seed) else -1
            is_its_own = partition in {coordinator, taker}
            if is_its_own and coordinator not in unavailable:
                by_coordinator[coordinator].append(record)
                if isinstance(record, Seed) and taker in takers:
                    by_taker[taker].append(record)
        by_coordinator[partition] += []
        enrolling = {
            coordinator: self._steps.enroll(coordinator, replace(batch, records=records), cursors)
            for coordinator, records in by_coordinator.items()
        }
        enrolled = await self._leaving.each(cursors, enrolling, waits_for=partition)
        failpoint("late_enrolled")
        stamps = {at: stamp for one in enrolled.values() for at, stamp in one.stamps.items()}
        unavailable |= by_coordinator.keys() - enrolled.keys()
        others = frozenset(range(len(self._frontiers))) - {partition}
        untold = cursors.reported_elsewhere(but=partition)

        def take(taker: int) -> Awaitable[Taken]:
            seeds = [each for each in by_taker[taker] if each.offset in stamps]
            absent = unavailable if taker == partition else others
            seeds_of = SeedsOf(len(self._frontiers), coordinators, absent, untold)
            return self._steps.take(taker, replace(batch, records=seeds), stamps, seeds_of)

        left = cursors.left.keys() - {partition}
        taking = {taker: take(taker) for taker in takers - left}
        taken = await self._leaving.each(cursors, taking, waits_for=partition)
        failpoint("late_taken")
        # Refusals by other coordinators have been reported before.
        stopped = enrolled[partition].stopped if is_asked_first else ()
        return {
            **dict.fromkeys(stopped, "stopped"),
            **{at: why for one in taken.values() for at, why in one.refused.items()},
        }
