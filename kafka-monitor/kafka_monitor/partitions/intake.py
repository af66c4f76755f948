"""Requests on their way into a frontier of several partitions.

Homes enroll the seeds and commands of their crawls, in record order; with what they say of each
seed, the partitions of their domains take them. Every home and every partition has a position of
its own: one that a batch does not concern is told shortly after it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from crawlstream.errors import FrontierFull, RedisUnavailable
from crawlstream.frontier.codec.intake import WHILE_MOVED
from crawlstream.frontier.frontier import Frontier
from crawlstream.frontier.partitions.frontiers import Frontiers
from crawlstream.frontier.partitions.labelling import Labelling
from crawlstream.frontier.partitions.schedules import DividedSchedules
from crawlstream.model.effects import (
    Command,
    Effect,
    IntakeBatch,
    IntakeResult,
    ScheduleChange,
    Seed,
)
from crawlstream.model.partitions.messages import ContextKey, Enrolled, Stamp, Taken, ToNote
from crawlstream.tasks import end, together
from kafka_monitor.partitions.homes import Homes

MOVE_AFTER_S = 0.2
"""So long after a batch, positions are brought on that nothing has moved; runs wait for it."""
MOVE_AGAIN_S = 2.0
"""The same, once somebody did not answer."""
DRAW_AGAIN_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Pauses between attempts to draw credits for a seed."""

Place = tuple[str, int]
"""Topic UUID and Kafka partition."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Cursors:
    """The positions of a Kafka partition, as far as they are known here."""

    enrolled: dict[int, int] = field(default_factory=dict)
    """By home."""
    taken: dict[int, int] = field(default_factory=dict)
    """By partition."""
    untold: set[int] = field(default_factory=set)
    """Partitions that have refused seeds, until they hear that this was told."""
    next: IntakeBatch | None = None
    """The batch, without its records, that all have to come to."""
    moving: asyncio.Task[None] | None = None
    again_below: int = 0
    """Seeds may enter once more below it, as homes say."""
    past: int = 0
    """What schedules were told below it has been done, perhaps in a Redis that was lost."""

    def lowest(self) -> int:
        return min([*self.enrolled.values(), *self.taken.values()])

    def highest(self) -> int:
        return max([*self.enrolled.values(), *self.taken.values()])


class DividedIntake:
    """Lets records take effect in all partitions that they concern, each exactly once."""

    def __init__(self, frontiers: Frontiers, homes: Homes, labelling: Labelling) -> None:
        self._frontiers = frontiers
        self._homes = homes
        self._labelling = labelling
        self._cursors: dict[Place, _Cursors] = {}

    async def begin(
        self, topic_id: str, kafka_partition: int, oldest: int, *, committed: int = 0
    ) -> int:
        """Where reading begins: at the lowest position; ``oldest`` where one has none.

        ``committed``: up to here the group has told Kafka that all has taken effect.
        RedisUnavailable: a partition does not answer.
        """
        every = range(len(self._frontiers))
        place = topic_id, kafka_partition
        enrolled = [self._frontiers[p].home.begin(*place, oldest) for p in every]
        taken = [self._frontiers[p].reading.begin(*place, oldest) for p in every]
        found = await together([*enrolled, *taken])
        again = await together(each.home.again() for each in self._frontiers)
        known = self._cursors.get(place)
        cursors = _Cursors(
            dict(enumerate(found[: len(every)])),
            dict(enumerate(found[len(every) :])),
            past=max(committed, known.enrolled[0] if known else 0),
        )
        self._cursors[place] = cursors
        once_more = [known[place] for known in again if place in known]
        if once_more:
            cursors.again_below = cursors.highest()
        return min([cursors.lowest(), *once_more])

    async def misplaced(self) -> Sequence[Place]:
        """Kafka partitions of which some partition has gone back to an earlier position."""
        places = [*self._cursors]

        async def positions(frontier: Frontier) -> list[tuple[int, int]]:
            enrolled = await frontier.home.enrolled()
            taken, again = await frontier.positions.known(), await frontier.home.again()
            return [
                (-1 if place in again else enrolled.get(place, -1), taken.get(place, -1))
                for place in places
            ]

        answers = await self._frontiers.ask(positions)
        return [
            place
            for n, (place, cursors) in enumerate(self._cursors.items())
            if any(
                at[n][0] < cursors.enrolled[p] or at[n][1] < cursors.taken[p]
                for p, at in answers.by_partition.items()
            )
        ]

    def pack(self, batch: IntakeBatch) -> IntakeBatch:
        """Nothing is packed ahead: what a home says of a seed comes first."""
        return batch

    async def apply(self, batch: IntakeBatch) -> IntakeResult:
        """Let consecutive records take effect, with their positions.

        PositionGap: some are missing before. FrontierFull: seeds wait. Unavailable: a partition or
        Kafka does not answer. In each case some may have taken effect: repeat.
        """
        place = batch.topic_id, batch.kafka_partition
        cursors = self._cursors[place]
        if cursors.lowest() >= batch.start and cursors.highest() <= batch.start:
            await self._refuse_while_moved()
        enrolled = await self._enroll(batch, cursors)
        stamps = {offset: stamp for one in enrolled for offset, stamp in one.stamps.items()}
        taken = await self._take(batch, stamps, cursors)
        if batch.start < cursors.again_below:
            await together(each.home.reread(batch) for each in self._frontiers)
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

    async def _refuse_while_moved(self) -> None:
        """FrontierFull while the frontier is being moved; what has begun is brought to its end."""
        if await self._frontiers.root.positions.are_moved():
            raise FrontierFull(WHILE_MOVED)

    async def _note_repeated(self, enrolled: Sequence[Enrolled]) -> int:
        """Count what came again of firings, by schedule; how much that was."""
        repeated = Counter[str]()
        for one in enrolled:
            repeated.update(one.repeated)
        if repeated:
            await DividedSchedules(self._frontiers).note_repeated(repeated)
        return repeated.total()

    async def _enroll(self, batch: IntakeBatch, cursors: _Cursors) -> Sequence[Enrolled]:
        by_home = defaultdict[int, list[Effect]](list)
        for record in batch.records:
            if not isinstance(record, ScheduleChange) or record.offset >= cursors.past:
                by_home[self._home_of(record)].append(record)
        return await together(
            self._enroll_at(home, replace(batch, records=records), cursors)
            for home, records in by_home.items()
        )

    def _home_of(self, record: Effect) -> int:
        """Schedules are in partition 0; of what else concerns no crawl, any home would do."""
        crawl = record.crawl if isinstance(record, Seed | Command) else None
        return self._frontiers.partitions.home(crawl) if crawl else 0

    async def _enroll_at(self, home: int, batch: IntakeBatch, cursors: _Cursors) -> Enrolled:
        """Have one home learn of its records; what ends a generation is noted on the way."""
        batch = replace(batch, start=min(batch.start, cursors.enrolled[home]))
        times = {record.offset: record.timestamp_ms for record in batch.records}
        noted: dict[int, ToNote] = {}
        while True:
            done = await self._homes.ask(home, lambda its: its.enroll(batch, noted))
            if done.note is None:
                cursors.enrolled[home] = max(cursors.enrolled[home], batch.next)
                return done
            assert done.note.offset is not None
            await self._homes.note(home, done.note, times[done.note.offset])
            noted[done.note.offset] = done.note

    async def _take(
        self, batch: IntakeBatch, stamps: Mapping[int, Stamp], cursors: _Cursors
    ) -> Sequence[Taken]:
        by_partition = defaultdict[int, list[Effect]](list)
        for record in batch.records:
            if isinstance(record, Seed):
                by_partition[self._frontiers.partitions.of(record.domain)].append(record)
        for partition in cursors.untold:
            by_partition[partition] += []
        return await together(
            self._take_at(partition, replace(batch, records=seeds), stamps, cursors)
            for partition, seeds in by_partition.items()
        )

    async def _take_at(
        self, partition: int, batch: IntakeBatch, stamps: Mapping[int, Stamp], cursors: _Cursors
    ) -> Taken:
        batch = replace(batch, start=min(batch.start, cursors.taken[partition]))
        reading, applied = self._frontiers[partition].reading, 0
        while True:
            done = await reading.take(batch, stamps)
            self._labelling.ask(partition, done.unconfirmed)
            applied += done.applied
            if done.short is None:
                break
            await self._draw(partition, done.short)
        cursors.taken[partition] = max(cursors.taken[partition], batch.next)
        (cursors.untold.add if done.refused else cursors.untold.discard)(partition)
        return replace(done, applied=applied)

    async def _draw(self, partition: int, short: ContextKey) -> None:
        """Have credits of a page limit carried that a seed waits for; RedisUnavailable: not yet."""
        for pause_s in DRAW_AGAIN_S:
            if any(await self._labelling.credits.draw(partition, short)):
                return
            await asyncio.sleep(pause_s)
        name = self._frontiers.name(partition)
        raise RedisUnavailable(f"a seed of {short.crawl} waits for credits in {name}")

    async def _move(self, cursors: _Cursors) -> None:
        """Bring on the positions that nothing has moved, until all have come to the last batch."""
        pause_s = MOVE_AFTER_S
        while True:
            await asyncio.sleep(pause_s)
            batch = cursors.next
            if batch is None or cursors.lowest() >= batch.next:
                cursors.moving = None
                return
            moves = [
                *(self._enroll_at(p, batch, cursors) for p in _behind(cursors.enrolled, batch)),
                *(self._take_at(p, batch, {}, cursors) for p in _behind(cursors.taken, batch)),
            ]
            ended = await asyncio.gather(*moves, return_exceptions=True)
            failed = [each for each in ended if isinstance(each, BaseException)]
            pause_s = MOVE_AGAIN_S if failed else MOVE_AFTER_S
            if failed:
                log.warning("put", outcome="behind", error=str(failed[0]))

    async def stop(self) -> None:
        """End what is under way."""
        await end([one.moving for one in self._cursors.values() if one.moving])


def _behind(positions: Mapping[int, int], batch: IntakeBatch) -> list[int]:
    return [p for p, position in positions.items() if position < batch.next]


def _commands_in(batch: IntakeBatch) -> int:
    return sum(isinstance(record, Command | ScheduleChange) for record in batch.records)
