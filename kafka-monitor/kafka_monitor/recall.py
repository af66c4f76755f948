"""Spilled children on their way back: read while Redis has room, recalled with their position.

Nothing is read, and no consumer lives, while the frontier has nothing spilled. As with intake, the
position in the frontier is the truth, and the group's commit a hint.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial

import structlog

from crawlstream.boot.settings import Settings
from crawlstream.bus.history import held
from crawlstream.bus.records import Batch, OutOfRange
from crawlstream.bus.source import KafkaSource
from crawlstream.bus.topics import forget_records
from crawlstream.errors import KafkaUnavailable, PositionGap
from crawlstream.frontier.overflow import Moment, Overflow, Room, SpillBatch, Spilled, read_spill
from crawlstream.keys import Topics
from crawlstream.stats.pulse import Pulse
from kafka_monitor.rejects import Rejected, Rejects

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
    """Brings back what was spilled; safe beside any number of others in the same group."""

    def __init__(
        self, overflow: Overflow, rejects: Rejects, *, topics: Topics, settings: Settings
    ) -> None:
        self._overflow = overflow
        self._rejects = rejects
        self._topic = topics.overflow
        self._hosts = settings.KAFKA_HOSTS
        self._group = f"{settings.KAFKA_GROUP}.overflow"
        self._topic_id = ""
        self._recalled: dict[int, int] = {}
        self._looked_at = self._forgot_at = time.monotonic()
        self._forgettable: dict[int, int] = {}
        self._measured: tuple[Moment, str, Mapping[int, int]] | None = None
        self._measured_at = -PASS_EVERY_S
        self.pulse = Pulse("recall")

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
            if (await self._room()).spilled:
                async with self._source() as source:
                    await self._recall_from(source)
            await self._forget()
            await asyncio.sleep(LOOK_EVERY_S)

    def _source(self) -> KafkaSource:
        return KafkaSource(
            self._hosts,
            self._topic,
            group=self._group,
            locate=self._locate,
            on_out_of_range=self._decide,
            client_id="kafka-monitor-overflow",
        )

    async def _recall_from(self, source: KafkaSource) -> None:
        needed_at = time.monotonic()
        while time.monotonic() - needed_at < LINGER_S:
            for batch in await source.poll(POLL_S):
                await self._take(source, batch)
            self.pulse.beat()
            if time.monotonic() - self._looked_at > LOOK_EVERY_S:
                self._looked_at = time.monotonic()
                await self._look_after(source)
                await self._note_passed()
                if (await self._room()).spilled:
                    needed_at = time.monotonic()

    async def _take(self, source: KafkaSource, batch: Batch) -> None:
        spills = SpillBatch(
            topic_id=batch.topic_id,
            kafka_partition=batch.partition,
            start=batch.start,
            next=batch.next,
            records=await self._read(batch),
        )
        for part in spills.parts():
            await self._wait_for_room(source)
            begun = time.monotonic()
            try:
                done = await self.pulse.patiently(partial(self._overflow.recall, part))
            except PositionGap as gap:
                log.warning("recall", outcome="gap", partition=batch.partition, at=gap.position)
                await self._place(source, batch.partition)
                return
            self._recalled[batch.partition] = part.next
            log.info(
                "recall",
                partition=batch.partition,
                start=part.start,
                next=part.next,
                applied=done.applied,
                ignored=done.ignored,
                admitted=done.admitted,
                ms=round((time.monotonic() - begun) * 1000, 1),
            )
        await source.commit({batch.partition: batch.next})

    async def _read(self, batch: Batch) -> Sequence[Spilled]:
        """The records that can be read; of the others the world is told."""
        found: list[Spilled] = []
        rejected: list[Rejected] = []
        for record in batch.records:
            try:
                found.append(read_spill(record.offset, record.value))
            except ValueError as error:
                rejected.append(Rejected(record, "unreadable_spill", [f"$: {error}"]))
        for one in rejected:
            log.error("recall", outcome="unreadable", offset=one.record.offset, why=one.problems)
        await self.pulse.patiently(partial(self._rejects.publish, rejected))
        return found

    async def _wait_for_room(self, source: KafkaSource) -> None:
        if (await self._room()).is_there:
            return
        source.pause()
        while True:
            await asyncio.sleep(ROOM_EVERY_S)
            if (await self._room()).is_there:
                break
        source.resume()

    async def _room(self) -> Room:
        return await self.pulse.patiently(self._overflow.room)

    async def _look_after(self, source: KafkaSource) -> None:
        """Notice that Redis has lost its last seconds, or everything, also while nothing comes."""
        known = await self.pulse.patiently(self._overflow.positions)
        for partition, recalled in list(self._recalled.items()):
            if known.get((self._topic_id, partition), -1) < recalled:
                del self._recalled[partition]
                await self._place(source, partition)

    async def _note_passed(self) -> None:
        """Measure where the topic ends, and tell the frontier when recall has come there.

        What was spilled before and is not recalled by then is lost: the frontier lets it fail.
        """
        due = time.monotonic() - self._measured_at > PASS_EVERY_S
        if self._measured is None and self._topic_id and due:
            self._measured_at = time.monotonic()
            moment, topic_id = await self.pulse.patiently(self._overflow.moment), self._topic_id
            try:
                found = await held(self._hosts, self._topic, group=self._group)
            except KafkaUnavailable as error:
                log.warning("recall", outcome="not_measured", error=str(error))
                return
            if found:
                self._measured = moment, topic_id, {p: one.end for p, one in found.items()}
        if self._measured is not None:
            measured = self._measured
            if await self.pulse.patiently(lambda: self._overflow.passed(*measured)):
                self._measured = None

    async def _place(self, source: KafkaSource, partition: int) -> None:
        locate = partial(self._locate, self._topic_id, partition)
        source.seek(partition, await self.pulse.patiently(locate))

    async def _locate(self, topic_id: str, partition: int) -> int:
        self._topic_id = topic_id
        position = (await self._overflow.positions()).get((topic_id, partition))
        if position is None:
            # What was recalled may be lost with the position, in Redis' last second, though it is
            # committed: all that there is is read, and what means nothing any more is ignored.
            found = (await held(self._hosts, self._topic, group=self._group))[partition]
            position = await self._overflow.begin(topic_id, partition, found.oldest)
        return position

    async def _decide(self, gap: OutOfRange) -> int | None:
        """Go on where the topic begins, if somebody has deleted what was to come back.

        So if it lost its end, too: what comes back twice is ignored by its name.
        """
        if gap.has_lost_records:
            log.error("recall", outcome="lost_records", partition=gap.partition, at=gap.position)
            self._recalled.pop(gap.partition, None)
            await self._overflow.rewind(gap.topic_id, gap.partition, gap.log_start)
            return gap.log_start
        skip = SpillBatch(
            topic_id=gap.topic_id,
            kafka_partition=gap.partition,
            start=gap.position,
            next=gap.log_start,
            records=(),
        )
        await self._overflow.recall(skip)
        return gap.log_start

    async def _forget(self) -> None:
        if time.monotonic() - self._forgot_at < FORGET_EVERY_S:
            return
        self._forgot_at = time.monotonic()
        due, self._forgettable = self._forgettable, dict(self._recalled)
        if due:
            try:
                await forget_records(self._hosts, self._topic, due)
            except KafkaUnavailable as error:
                log.warning("recall", outcome="not_deleted", error=str(error))
