"""Recovery from a lost Redis: the position of each partition, and the records that are read again.

Redis is disposable. A frontier without a position of a partition that the group has committed was
lost. Its records are read again from the oldest. Below the committed offset only crawl requests
take effect, and only if ``<prefix>.runs`` does not have the end of their crawl; above it every
record takes effect. Records that were refused, answered or stopped are not refused, answered or
stopped again.

A position below the committed one is that of an old copy of Redis (or of a log that lost its last
second): the frontier receives the endings of its runs since, and the records from its position on
are read again in the same way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import (
    PartitionOffsets,
    epoch_ends,
    marks_of,
    partition_offsets,
    read_all,
)
from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import Batch, LostRecords, Out, OutOfRange, Record
from crawlstream.keys import Topics
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Command, Loss, ScheduleChange
from crawlstream.model.run_marks import REMEMBERED, Past, RunMark
from crawlstream.wire import run_marks
from crawlstream_frontier.positions import Positions
from kafka_monitor.rejections import RejectionPublisher
from kafka_monitor.schedule_memory import ScheduleMemory

OFFSETS_FOR_S = 1.0
"""How long an answer of Kafka's about its partitions is good; the group commits as often."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Replay:
    """The part of a partition that is read again."""

    topic_id: str
    until: int
    past: Past


async def _nothing() -> None:
    """Note nothing, where whose the frontier is does not matter."""


class Recovery:
    """Says where partitions go on; knows which of them read their past again."""

    def __init__(
        self,
        positions: Positions,
        sink: Sink,
        topics: Topics,
        *,
        rejects: RejectionPublisher,
        kafka: Kafka,
        group: str,
        schedules: ScheduleMemory,
        join: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        """``join`` notes whose the frontier is, a new one after a loss; ConfigError."""
        self._positions = positions
        self._schedules = schedules
        self._join = join
        self._may_be_new = False
        self._sink = sink
        self._topics = topics
        self._rejects = rejects
        self._offsets = partial(partition_offsets, kafka, topics.incoming, group=group)
        self._epoch_ends = partial(epoch_ends, kafka, topics.incoming)
        self._read_runs = partial(read_all, kafka, topics.runs)
        self._located: dict[int, str] = {}
        self._reached: dict[int, int] = {}
        self._applied_to: dict[int, int] = {}
        self._replays: dict[int, Replay] = {}
        self.placed = 0
        """How often a partition was begun, so far."""
        self._asking = asyncio.Lock()
        self._last_offsets: dict[int, PartitionOffsets] = {}
        self._offsets_at = -OFFSETS_FOR_S

    async def locate(self, topic_id: str, partition: int) -> int:
        """The offset to read a partition from; Unavailable where a service does not answer.

        LostRecords: Kafka has lost records that took effect, and may hold others in their place.
        """
        position = (await self._positions.known()).get((topic_id, partition))
        if position is None:
            position = await self._begin(topic_id, partition)
            self._may_be_new = True
        else:
            await self._check_log(topic_id, partition, position)
            await self._check(topic_id, partition, position)
        if self._may_be_new:
            await self._join()
            self._may_be_new = False
        begin = await self._positions.begin(topic_id, partition, position)
        self._located[partition], self._reached[partition] = topic_id, begin
        self._applied_to[partition] = position
        self.placed += 1
        until = await self._positions.lost_until(topic_id, partition)
        self._replays.pop(partition, None)
        if until is not None and position < until:
            past = Past(await self._marks())
            self._replays[partition] = Replay(topic_id, until, past)
            log.warning("recover", partition=partition, position=position, until=until)
        return begin

    def note_reached(self, partition: int, position: int) -> None:
        """The frontier has moved a position."""
        self._reached[partition] = position

    def settled(self, _partition: int, reached: int) -> int:
        """All that was put has taken effect everywhere."""
        return reached

    def caught_up(self) -> dict[int, int]:
        """Nothing is left behind."""
        return {}

    def reached(self) -> dict[int, tuple[str, int]]:
        """Topic UUID and next offset to read, by partition that was ever assigned to it."""
        return {p: (topic_id, self._reached[p]) for p, topic_id in self._located.items()}

    async def misplaced(self) -> dict[int, str]:
        """Topic UUID by partition, of those to be read from an earlier offset on.

        The frontier has forgotten them, wholly or in part, or wants seeds of theirs once more.
        """
        # Effects applied while the calls run are not a reason to read again.
        reached, placed = {**self._reached}, self.placed
        known, again = await self._positions.known(), await self._positions.again()
        if self.placed != placed:
            return {}
        return {
            partition: topic_id
            for partition, topic_id in self._located.items()
            if min(known.get((topic_id, partition), -1), again.get((topic_id, partition), 2**63))
            < reached[partition]
        }

    def is_past(self, partition: int, offset: int) -> bool:
        """Return whether a record has taken effect already, perhaps in a Redis that was lost."""
        replay = self._replays.get(partition)
        return offset < max(self._applied_to.get(partition, 0), replay.until if replay else 0)

    def is_over(self, crawl: CrawlKey, record: Record) -> bool:
        """Return whether a seed of a lost Redis is not to be crawled again."""
        replay = self._replays.get(record.partition)
        if replay is None:
            return False
        place = f"{replay.topic_id}:{record.partition}"
        return replay.past.is_over(crawl, place, offset=record.offset, at_ms=record.timestamp_ms)

    def steer_again(self, _effect: Command | ScheduleChange) -> None:
        """Return None: Kafka has the effect by ``note_steering``."""

    async def note_steering(self, batch: Batch, effects: Sequence[object]) -> None:
        """Have Kafka remember stops, pauses and resumes of a batch before they take effect."""
        place = f"{batch.topic_id}:{batch.partition}"
        marks = [
            RunMark(
                crawl=effect.crawl,
                state=effect.name,
                positions={place: effect.offset + 1},
                at_ms=effect.timestamp_ms,
                until=effect.until,
            )
            for effect in effects
            if isinstance(effect, Command) and effect.crawl and effect.name in REMEMBERED
        ]
        if marks:
            topic = self._topics.runs
            await self._sink.send(
                [Out(topic, run_marks.encode(m), Topics.run_key(m)) for m in marks]
            )

    async def _check_log(self, topic_id: str, partition: int, position: int) -> None:
        """See whether the record before the position is still the one that took effect."""
        epoch = await self._positions.leader_epoch(topic_id, partition)
        if epoch is None:
            return
        if (await self._epoch_ends({partition: epoch}))[partition] >= position:
            return
        # A person sets the position elsewhere, while no monitor runs; until then no monitor reads
        # it.
        self._located.pop(partition, None)
        found = (await self._offsets_lately())[partition]
        raise LostRecords(
            OutOfRange(topic_id, partition, position, found.oldest, found.end, has_diverged=True)
        )

    async def _check(self, topic_id: str, partition: int, position: int) -> None:
        """Send to a frontier that went back in time the endings of its runs since."""
        found = await self._offsets_lately()
        until = self._applied(topic_id, partition, found[partition])
        told = await self._positions.lost_until(topic_id, partition)
        if position >= until or (told or 0) >= until:
            return
        lost = self._lost(topic_id, found, await self._positions.known())
        marks = await self._marks()
        await self._schedules.recall(marks)
        past, crawls = Past(marks), await self._positions.crawls()
        fates = [fate for fate in past.fates() if not fate.is_over or fate.crawl in crawls]
        log.error(
            "recover", outcome="old_copy", partition=partition, position=position, until=until
        )
        await self._positions.restore(
            Loss(
                topic_id=topic_id,
                kafka_partition=partition,
                offset=position,
                until=until,
                floor=past.floor,
                behind=lost,
                fates=fates,
            )
        )

    async def _begin(self, topic_id: str, partition: int) -> int:
        """Return where a partition begins that the frontier has no position of."""
        records = await self._read_runs()
        if not records:
            # Before the first effect, so that a loss is noticed from the first start.
            await self._sink.send([Out(self._topics.runs, run_marks.EPOCH, run_marks.EPOCH_KEY)])
        else:
            await self._schedules.recall(marks_of(records))
        found, known = await self._offsets_lately(), await self._positions.known()
        oldest = found[partition].oldest
        topics = {topic for topic, _ in known}
        is_another = bool(topics) and topic_id not in topics
        if is_another:
            await self._tell_of_another_topic(topic_id, partition, oldest)
        lost = {} if is_another else self._lost(topic_id, found, known)
        loss = partial(Loss, topic_id=topic_id, kafka_partition=partition)
        if not records or not lost:
            return await self._positions.restore(loss(offset=lost.get(partition, oldest)))
        past, until = Past(await self._marks()), lost.get(partition, 0)
        unfinished = [fate for fate in past.fates() if not fate.is_over]
        log.error("recover", partition=partition, until=until, unfinished=len(unfinished))
        return await self._positions.restore(
            loss(offset=oldest, until=until, floor=past.floor, behind=lost, fates=unfinished)
        )

    def _lost(
        self,
        topic_id: str,
        found: Mapping[int, PartitionOffsets],
        known: Mapping[tuple[str, int], int],
    ) -> dict[int, int]:
        """Return applied offsets of partitions whose position in the frontier is missing or lower.

        This includes partitions that are not assigned at this moment: a run that begins in a new
        partition must not have the number of a run that began in one of these, and a run that came
        back may get seeds from there. ``found`` is older than ``known``, so that an effect applied
        meanwhile does not count as lost.
        """
        lost = {}
        for partition, one in found.items():
            position = known.get((topic_id, partition))
            is_unknown = position is None
            applied = self._applied(topic_id, partition, one) if is_unknown else one.applied
            if applied > (position or 0):
                lost[partition] = applied
        return lost

    def _applied(self, topic_id: str, partition: int, found: PartitionOffsets) -> int:
        """Return the applied offset of a partition, by the group's commit and by this process."""
        applied = found.applied
        if self._located.get(partition) == topic_id:
            applied = max(applied, self._reached[partition])
        return applied

    async def _tell_of_another_topic(self, topic_id: str, partition: int, oldest: int) -> None:
        sentence = (
            f"the topic was deleted and created again (id {topic_id}). It is read from its"
            " beginning; records of the deleted topic that had not taken effect are lost"
        )
        log.error("poll", outcome="another_topic", partition=partition, error=sentence)
        await self._rejects.mark(
            "another_topic", sentence, partition=partition, offset=oldest, place=topic_id
        )

    async def _offsets_lately(self) -> dict[int, PartitionOffsets]:
        """Return offsets of the last second: partitions assigned together share a request."""
        async with self._asking:
            if time.monotonic() - self._offsets_at > OFFSETS_FOR_S:
                self._last_offsets, self._offsets_at = await self._offsets(), time.monotonic()
            return self._last_offsets

    async def _marks(self) -> list[RunMark]:
        return marks_of(await self._read_runs())
