"""Intake of requests into a frontier of several partitions.

Coordinators enroll the seeds and commands of their crawls, in record order. With the coordinators'
answer for each seed, the partitions of the domains take the seeds. Every coordinator and every
partition has a position of its own. The position of one that a batch does not concern is moved
shortly after the batch. One that is unavailable or full is left behind, and catches up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from crawlstream.errors import FrontierFull, Unavailable
from crawlstream.model.effects import (
    Command,
    Effect,
    IntakeBatch,
    IntakeResult,
    ScheduleChange,
    Seed,
)
from crawlstream.model.partitions.messages import Enrolled, SeedsOf, Stamp, Taken
from crawlstream.tasks import together
from crawlstream_frontier.codec.intake import WHILE_MOVED
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.partition_calls.partition_intake import Reached
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.partitions.schedules import DividedSchedules
from kafka_monitor.partitions.cursors import Cursors, Place
from kafka_monitor.partitions.steps import Steps
from kafka_monitor.partitions.unavailable_partitions import UnavailablePartitions

MOVE_AFTER_S = 0.2
"""Seconds after a batch at which unmoved positions are moved; ends of runs wait for them."""
MOVE_AGAIN_S = 2.0
"""Seconds before the positions are moved again, once a partition did not answer."""

log = structlog.get_logger()


class DividedIntake:
    """Lets records take effect in all partitions that they concern, each exactly once."""

    def __init__(self, frontiers: Frontiers, steps: Steps, leaving: UnavailablePartitions) -> None:
        self._frontiers = frontiers
        self._steps = steps
        self._leaving = leaving
        self._cursors: dict[Place, Cursors] = {}

    async def begin(
        self, topic_id: str, kafka_partition: int, oldest: int, *, committed: int = 0
    ) -> int:
        """Return where reading begins: at the lowest position; ``oldest`` where one has none.

        ``committed``: up to here the group has told Kafka that all has taken effect. Partitions
        that do not answer are left behind; RedisUnavailable: none does.
        """
        place = topic_id, kafka_partition

        async def positions(frontier: Frontier) -> tuple[int, Reached, int | None]:
            enrolled = await frontier.coordinator.begin(*place, oldest)
            again = (await frontier.coordinator.again()).get(place)
            return enrolled, await frontier.reading.reached(*place, oldest), again

        answers = await self._frontiers.query(positions)
        known = self._cursors.get(place)
        if known:
            await self._leaving.end(known)
        cursors = self._cursors[place] = Cursors(place, oldest, committed)
        cursors.past = max(committed, known.enrolled.get(0, 0) if known else 0)
        unavailable, lowest = answers.missing.keys(), list[int]()
        for p, (enrolled, reached, again) in answers.by_partition.items():
            # Records to bring to a partition may lie before its position.
            cursors.enrolled[p], cursors.taken[p] = enrolled, reached.of_all(but=unavailable)
            lowest += [enrolled, reached.lowest(but=unavailable)]
            if again is not None:
                lowest.append(again)
                cursors.again_below = max(
                    max(enrolled, reached.position) for enrolled, reached, _ in answers.values
                )
        begin = min(lowest)
        cursors.next = IntakeBatch(
            topic_id=topic_id, kafka_partition=kafka_partition, start=begin, next=begin, records=()
        )
        for p, why in answers.missing.items():
            self._leaving.leave_behind(cursors, p, why, is_unavailable=True)
        return begin

    async def misplaced(self) -> Sequence[Place]:
        """Kafka partitions of which some partition has gone back to an earlier position."""
        # Effects applied while the calls run are not a reason to read again.
        known = {
            place: (cursors, {**cursors.enrolled}, {**cursors.taken})
            for place, cursors in self._cursors.items()
        }

        async def positions(frontier: Frontier) -> list[tuple[int, int]]:
            enrolled, taken, again = await asyncio.gather(
                frontier.coordinator.enrolled(),
                frontier.positions.known(),
                frontier.coordinator.again(),
            )
            return [
                (-1 if place in again else enrolled.get(place, -1), taken.get(place, -1))
                for place in known
            ]

        answers = await self._frontiers.query(positions)
        return [
            place
            for n, (place, (cursors, enrolled, taken)) in enumerate(known.items())
            if self._cursors[place] is cursors
            and any(
                at[n][0] < enrolled.get(p, 0) or at[n][1] < taken.get(p, 0)
                for p, at in answers.by_partition.items()
                if p not in cursors.left
            )
        ]

    def pack(self, batch: IntakeBatch) -> IntakeBatch:
        """Nothing is packed ahead: what a coordinator says of a seed comes first."""
        return batch

    def settled(self, place: Place, reached: int) -> int:
        """Up to where all has taken effect everywhere, once the loop has ``reached`` an offset."""
        return self._cursors[place].settled(reached)

    async def apply(self, batch: IntakeBatch) -> IntakeResult:
        """Let consecutive records take effect, with their positions.

        PositionGap: some are missing before. FrontierFull: seeds wait. Unavailable: a partition or
        Kafka does not answer. In each case some may have taken effect: repeat.
        """
        cursors = self._cursors[batch.topic_id, batch.kafka_partition]
        async with cursors.turn:
            if cursors.is_even_at(batch.start):
                await self._refuse_while_moved(cursors)
            coordinators = self._steps.coordinators_of(batch.records)
            enrolled = await self._enroll(batch, cursors, coordinators)
            stamps = {offset: stamp for one in enrolled for offset, stamp in one.stamps.items()}
            taken = await self._take(batch, stamps, cursors, coordinators)
            if batch.start < cursors.again_below and not cursors.left:
                await together(each.coordinator.reread(batch) for each in self._frontiers)
            cursors.next = replace(batch, records=())
        if cursors.moving is None:
            cursors.moving = asyncio.create_task(self._move(cursors))
        repeated = await self._note_repeated(enrolled)
        return IntakeResult(
            applied=sum(one.applied for one in taken) + _commands_in(batch) + repeated,
            runs={offset: stamp.run for offset, stamp in stamps.items() if stamp.run},
            refused={
                **{offset: "stopped" for one in enrolled for offset in one.stopped},
                **{offset: why for one in taken for offset, why in one.refused.items()},
            },
            repeated=repeated,
        )

    async def _refuse_while_moved(self, cursors: Cursors) -> None:
        """FrontierFull while the frontier is being moved; what has begun is brought to its end."""
        asked = next(p for p in range(len(self._frontiers)) if p not in cursors.unavailable)
        moved = await self._leaving.each(
            cursors, {asked: self._frontiers[asked].positions.are_moved()}
        )
        if any(moved.values()):
            raise FrontierFull(WHILE_MOVED)

    async def _note_repeated(self, enrolled: Sequence[Enrolled]) -> int:
        """Count firings that were read again, by schedule; return their number."""
        repeated = Counter[str]()
        for one in enrolled:
            repeated.update(one.repeated)
        if repeated:
            # A count for people, in partition 0: what has taken effect does not wait for it.
            with contextlib.suppress(Unavailable):
                await DividedSchedules(self._frontiers).note_repeated(repeated)
        return repeated.total()

    async def _enroll(
        self, batch: IntakeBatch, cursors: Cursors, coordinators: Mapping[int, int]
    ) -> Sequence[Enrolled]:
        by_coordinator, unavailable = defaultdict[int, list[Effect]](list), cursors.unavailable
        for record in batch.records:
            if (coordinator := coordinators[record.offset]) not in unavailable:
                by_coordinator[coordinator].append(record)
        work = {
            coordinator: self._steps.enroll(coordinator, replace(batch, records=records), cursors)
            for coordinator, records in by_coordinator.items()
        }
        return [*(await self._leaving.each(cursors, work)).values()]

    async def _take(
        self,
        batch: IntakeBatch,
        stamps: Mapping[int, Stamp],
        cursors: Cursors,
        coordinators: Mapping[int, int],
    ) -> Sequence[Taken]:
        by_partition = defaultdict[int, list[Effect]](list)
        seeds_of = self._seeds_of(cursors, coordinators)
        for record in batch.records:
            if isinstance(record, Seed) and coordinators[record.offset] not in seeds_of.absent:
                by_partition[self._frontiers.partitions.of(record.domain)].append(record)
        for partition in cursors.untold:
            by_partition[partition] += []
        work = {
            partition: self._take_at(
                partition, replace(batch, records=seeds), stamps, cursors, seeds_of=seeds_of
            )
            for partition, seeds in by_partition.items()
            if partition not in cursors.left
        }
        return [*(await self._leaving.each(cursors, work)).values()]

    def _seeds_of(self, cursors: Cursors, coordinators: Mapping[int, int]) -> SeedsOf:
        return SeedsOf(
            len(self._frontiers), coordinators, cursors.unavailable, cursors.reported_elsewhere()
        )

    async def _take_at(
        self,
        partition: int,
        batch: IntakeBatch,
        stamps: Mapping[int, Stamp],
        cursors: Cursors,
        *,
        seeds_of: SeedsOf,
    ) -> Taken:
        batch = replace(batch, start=min(batch.start, cursors.taken[partition]))
        done = await self._steps.take(partition, batch, stamps, seeds_of)
        cursors.taken[partition] = max(cursors.taken[partition], batch.next)
        (cursors.untold.add if done.refused else cursors.untold.discard)(partition)
        return done

    async def _move(self, cursors: Cursors) -> None:
        """Bring on the positions that nothing has moved, until all have come to the last batch."""
        pause_s = MOVE_AFTER_S
        while True:
            await asyncio.sleep(pause_s)
            batch = cursors.next
            if batch is None or cursors.are_all_at(batch.next):
                cursors.moving = None
                return
            seeds_of = self._seeds_of(cursors, {})
            moves = [
                *(
                    self._steps.enroll(p, batch, cursors)
                    for p in cursors.coordinators_behind(batch.next)
                ),
                *(
                    self._take_at(p, batch, {}, cursors, seeds_of=seeds_of)
                    for p in cursors.partitions_behind(batch.next)
                ),
            ]
            ended = await asyncio.gather(*moves, return_exceptions=True)
            failed = [each for each in ended if isinstance(each, BaseException)]
            pause_s = MOVE_AGAIN_S if failed else MOVE_AFTER_S
            if failed:
                log.warning("put", outcome="behind", error=str(failed[0]))

    async def stop(self) -> None:
        """End tasks in progress."""
        for cursors in self._cursors.values():
            await self._leaving.end(cursors)


def _commands_in(batch: IntakeBatch) -> int:
    return sum(isinstance(record, Command | ScheduleChange) for record in batch.records)
