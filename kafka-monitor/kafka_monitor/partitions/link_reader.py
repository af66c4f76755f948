"""Links that lead from one partition of the frontier to another: read, and applied once each.

The topic has a Kafka partition for each partition of the frontier, and the position of each lies in
the partition that it is for. Each is applied by a task of its own: one that does not answer, or has
no room, is not read, and the others do not wait for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from functools import partial

import structlog

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_source
from crawlstream.bus.history import partition_offsets
from crawlstream.bus.protocols import Source
from crawlstream.bus.records import Batch, OutOfRange
from crawlstream.errors import FrontierFull, PositionGap, Unavailable
from crawlstream.keys import Topics
from crawlstream.model.partitions.messages import Question
from crawlstream.tasks import end, let_leave
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.codec.link_records import read_links
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.partitions.answers import ANSWER_S
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.partitions.labelling import Labelling
from kafka_monitor.offset_gaps import OffsetGapPolicy
from kafka_monitor.readable_links import readable_in, skipped
from kafka_monitor.rejections import RejectionPublisher

POLL_S = 0.5
LOOK_EVERY_S = 2.0
"""Seconds until a partition that has gone back is noticed, also while no record arrives for it."""
RECORDS_AT_ONCE = 20
"""Records decoded at once while Redis applies the ones before: a few calls, a few milliseconds."""
FAILED_PAUSE_S = 5.0

log = structlog.get_logger()


class LinkReader:
    """Applies links that partitions found for others; several instances may run in the group."""

    def __init__(
        self,
        frontiers: Frontiers,
        labelling: Labelling,
        rejects: RejectionPublisher,
        *,
        kafka: Kafka,
        topics: Topics,
        group: str,
    ) -> None:
        self._frontiers = frontiers
        self._labelling = labelling
        self._rejects = rejects
        self._gaps = OffsetGapPolicy(
            self._skip, rejects, topic=topics.links, reason="links_out_of_range", sentence=_lost
        )
        self._topic = topics.links
        self._kafka = kafka.named("kafka-monitor-links")
        self._group = f"{group}.links"
        self._requests = partial(partition_offsets, kafka, topics.incoming, group=group)
        self._reached: dict[int, tuple[str, int]] = {}
        """Topic UUID and position, by partition that was ever assigned to this process."""
        self._taking: dict[int, asyncio.Task[None]] = {}
        """The batch that is being applied, by partition."""
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = time.monotonic()
        self.liveness = Liveness("links")

    async def run(self) -> None:
        """Work until cancelled, which harms nothing: what is at hand is simply read again."""
        while True:
            try:
                async with self._source() as source:
                    await self._read(source)
            except Exception:
                log.exception("links", outcome="failed")
                await asyncio.sleep(FAILED_PAUSE_S)

    def _source(self) -> Source:
        return make_source(
            self._kafka,
            self._topic,
            group=self._group,
            locate=self._locate,
            on_out_of_range=self._gaps.decide,
        )

    async def _read(self, source: Source) -> None:
        try:
            while True:
                for batch in await source.poll(POLL_S):
                    if batch.partition < len(self._frontiers):
                        await self._begin(source, batch)
                self._note_ended()
                self._look_after(source)
                self.liveness.beat()
        finally:
            await end([*self._taking.values(), *([self._looking] if self._looking else [])])
            self._taking.clear()
            self._looking = None

    async def _begin(self, source: Source, batch: Batch) -> None:
        """Have a batch applied after the one before it; one that hangs is not waited for again."""
        before = self._taking.get(batch.partition)
        if before and not (await asyncio.wait({before}, timeout=ANSWER_S))[0]:
            source.locate(batch.topic_id, batch.partition)
            return
        self._note_ended()
        self._taking[batch.partition] = asyncio.create_task(self._take(source, batch))

    def _note_ended(self) -> None:
        """Forget batches that have been applied; raise the unexpected error of one."""
        for partition in [p for p, task in self._taking.items() if task.done()]:
            self._taking.pop(partition).result()

    def _look_after(self, source: Source) -> None:
        """Have partitions read again that have lost their last seconds, or everything.

        Links are applied during the look: a partition that hangs answers after seconds.
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
            answers = await self._frontiers.query(lambda frontier: frontier.positions.known())
        except Unavailable:
            return
        for partition, known in answers.by_partition.items():
            topic_id, reached = before.get(partition, ("", -1))
            if known.get((topic_id, partition), -1) < reached:
                log.warning("links", outcome="gone_back", partition=partition, reached=reached)
                self._reached.pop(partition, None)
                source.locate(topic_id, partition)

    async def _take(self, source: Source, batch: Batch) -> None:
        try:
            await self._apply(batch)
        except PositionGap as gap:
            log.warning("links", outcome="gap", partition=batch.partition, position=gap.position)
        except (Unavailable, FrontierFull) as error:
            log.warning("links", outcome="waiting", partition=batch.partition, error=str(error))
        else:
            self._reached[batch.partition] = batch.topic_id, batch.next
            await source.commit({batch.partition: batch.next})
            return
        source.locate(batch.topic_id, batch.partition)

    async def _apply(self, batch: Batch) -> None:
        """Let a batch take effect; PositionGap, Unavailable, FrontierFull: some of it has not.

        While Redis has some of it, the next of it is decoded.
        """
        begun, admitted = time.monotonic(), 0
        applying: asyncio.Task[int] | None = None
        try:
            for chunk in [*batch.chunks(RECORDS_AT_ONCE)] or [batch]:
                links = await readable_in(
                    chunk, read_links, self._rejects, work="links", reason="unreadable_links"
                )
                admitted += await applying if applying else 0
                applying = asyncio.create_task(self._enter(links))
                await let_leave()
            admitted += await applying if applying else 0
        finally:
            await end([applying] if applying else [])
        log.info(
            "links",
            partition=batch.partition,
            start=batch.start,
            next=batch.next,
            admitted=admitted,
            ms=round((time.monotonic() - begun) * 1000, 1),
        )

    async def _enter(self, links: LinkBatch) -> int:
        """Let links enter, as many a call as it takes; answers how many were admitted."""
        reading, admitted = self._frontiers[links.kafka_partition].reading, 0
        unconfirmed: set[Question] = set()
        for part in links.parts():
            done = await reading.apply(part)
            admitted += done.admitted
            unconfirmed.update(done.unconfirmed)
        self._labelling.request(links.kafka_partition, unconfirmed)
        return admitted

    async def _locate(self, topic_id: str, partition: int) -> int:
        """Where a partition of the frontier has come to; Unavailable while it has no room."""
        if partition >= len(self._frontiers):
            # Records from before the move into fewer partitions: their links were moved, too.
            found = await partition_offsets(self._kafka, self._topic, group=self._group)
            return found[partition].end
        frontier = self._frontiers[partition]
        if not (await frontier.overflow.state()).has_room:
            raise Unavailable(f"{self._frontiers.name(partition)} has no room for links")
        found = await partition_offsets(self._kafka, self._topic, group=self._group)
        begin = await frontier.reading.begin(topic_id, partition, found[partition].oldest)
        # In this order: what is lost meanwhile takes the position with it, so that nothing is read.
        await self._wait_for_seeds(frontier, topic_id)
        self._reached[partition] = topic_id, begin
        return begin

    async def _wait_for_seeds(self, frontier: Frontier, topic_id: str) -> None:
        """Unavailable while a partition that has gone back has seeds to read again.

        A link that came before the seed with its URL would be another page than that.
        """
        known: defaultdict[int, int] = defaultdict(int)
        for (topic, number), position in (await frontier.positions.known()).items():
            if topic != topic_id:
                known[number] = max(known[number], position)
        for number, found in (await self._requests()).items():
            if known[number] < found.applied:
                raise Unavailable(f"the seeds of partition {number} are read again first")

    async def _skip(self, gap: OutOfRange) -> None:
        await self._frontiers[gap.partition].reading.apply(skipped(gap))


def _lost(gap: OutOfRange) -> str:
    return (
        f"Kafka has lost links to partition {gap.partition}: it has read up to {gap.position},"
        f" and the log goes from {gap.log_start} to {gap.log_end}"
    )
