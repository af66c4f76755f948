"""Links that lead from one partition of the frontier to another: read, and applied once each.

The topic has a Kafka partition for each partition of the frontier, and the position of each lies in
the partition that it is for.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from functools import partial

import structlog

from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import partition_offsets
from crawlstream.bus.records import Batch, OutOfRange
from crawlstream.errors import Unavailable
from crawlstream.keys import Topics
from crawlstream.model.partitions.messages import Question
from crawlstream.tasks import end, let_leave
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.codec.link_records import read_links
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.partitions.labelling import Labelling
from kafka_monitor.link_consumer import LinkConsumer, skipped
from kafka_monitor.offset_gaps import OffsetGapPolicy
from kafka_monitor.rejections import RejectionPublisher

RECORDS_AT_ONCE = 20
"""Records decoded at once while Redis applies the ones before: a few calls, a few milliseconds."""

log = structlog.get_logger()


class LinkReader(LinkConsumer):
    """Applies links that partitions found for others."""

    work, unreadable = "links", "unreadable_links"
    read = staticmethod(read_links)

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
        named = kafka.named("kafka-monitor-links")
        super().__init__(named, topics.links, rejects, group=f"{group}.links")
        self._frontiers = frontiers
        self._labelling = labelling
        self._gaps = OffsetGapPolicy(
            self._skip, rejects, topic=topics.links, reason="links_out_of_range", sentence=_lost
        )
        self._requests = partial(partition_offsets, kafka, topics.incoming, group=group)

    async def _decide(self, gap: OutOfRange) -> int | None:
        return await self._gaps.decide(gap)

    async def _positions(self) -> Mapping[int, Mapping[tuple[str, int], int]]:
        answers = await self._frontiers.query(lambda frontier: frontier.positions.known())
        return answers.by_partition

    async def _apply(self, batch: Batch) -> None:
        """Let a batch take effect; PositionGap, Unavailable, FrontierFull: some of it has not.

        While Redis has some of it, the next of it is decoded.
        """
        if batch.partition >= len(self._frontiers):
            return
        begun, admitted = time.monotonic(), 0
        applying: asyncio.Task[int] | None = None
        try:
            for chunk in [*batch.chunks(RECORDS_AT_ONCE)] or [batch]:
                links = await self._readable(chunk)
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
        """Return the position of a partition of the frontier; Unavailable while it has no room."""
        if partition >= len(self._frontiers):
            # Records from before the move into fewer partitions: their links were moved, too.
            return (await self._offsets())[partition].end
        frontier = self._frontiers[partition]
        if not (await frontier.overflow.state()).has_room:
            raise Unavailable(f"{self._frontiers.name(partition)} has no room for links")
        found = await self._offsets()
        begin = await frontier.reading.begin(topic_id, partition, found[partition].oldest)
        # In this order: what is lost meanwhile takes the position with it, so that nothing is read.
        await self._wait_for_seeds(frontier, topic_id)
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
