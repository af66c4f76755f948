"""The topic of what was spilled: one Kafka partition in a list, or the real one as it is read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.sink import KafkaSink
from crawlstream.keys import Topics
from crawlstream.model.crawl import Lease
from crawlstream.model.effects import ExchangeResult, Links, Outcome, Settle
from crawlstream.tasks import beside
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.codec.spill import read_spill
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.overflow import Overflow, RecallResult
from kafka_monitor.recall import Recall
from kafka_monitor.rejections import RejectionPublisher
from support.frontier.bench import KEYS, Worker


@dataclass
class Spills:
    """Records in their order, and how far they were recalled."""

    overflow: Overflow
    records: list[bytes] = field(default_factory=list)
    next: int = 0

    def send(self, worker: Worker, settle: Settle) -> Settle:
        """Send the links of a settle to Kafka; return the settle without them."""
        spills = worker.session.spill(settle)
        self.records += [spill.value for spill in spills]
        return replace(settle, links=(), spilled={spill.chunk: spill.links for spill in spills})

    async def settle(self, worker: Worker, lease: Lease, *links: Links) -> ExchangeResult:
        """End a lease, its links spilled."""
        settle = Settle(token=lease.token, outcome=Outcome.DONE, reason="2xx", links=links)
        return await worker.exchange(settles=[self.send(worker, settle)])

    def batch(self, start: int, end: int) -> LinkBatch:
        """Records from ``start`` up to ``end``."""
        return LinkBatch(
            topic_id="spills",
            kafka_partition=0,
            start=start,
            next=end,
            records=[read_spill(at, self.records[at]) for at in range(start, end)],
        )

    async def skip(self, count: int) -> None:
        """The next records are gone, or cannot be read: recall goes on behind them."""
        await self.overflow.begin("spills", 0, 0)
        await self.overflow.recall(replace(self.batch(self.next, self.next + count), records=()))
        self.next += count

    async def recall(self, count: int | None = None) -> RecallResult:
        """Let the next records take effect, or all."""
        end = len(self.records) if count is None else min(self.next + count, len(self.records))
        await self.overflow.begin("spills", 0, 0)
        done = [await self.overflow.recall(part) for part in self.batch(self.next, end).parts()]
        self.next = end
        return RecallResult(
            sum(one.applied for one in done),
            sum(one.ignored for one in done),
            sum(one.admitted for one in done),
        )


@asynccontextmanager
async def filled(redis: Redis, share: float) -> AsyncIterator[None]:
    """For the length of the block Redis uses this share of its memory."""
    limit = (await redis.config_get("maxmemory"))["maxmemory"] or 0
    used = (await redis.info("memory"))["used_memory"]
    await redis.config_set("maxmemory", max(int(used / share), 1))
    try:
        yield
    finally:
        await redis.config_set("maxmemory", limit)


@asynccontextmanager
async def recalling(redis: Redis, kafka_hosts: str, topics: Topics) -> AsyncIterator[None]:
    """Run the other duties of a kafka-monitor than intake, for the length of the block."""
    kafka = Kafka(kafka_hosts.split(","))
    async with KafkaSink(kafka) as sink:
        rejects = RejectionPublisher(Outbound(sink, topics))
        overflow = Frontier(redis, KEYS).overflow
        recall = Recall(overflow, rejects, kafka=kafka, topics=topics, group=topics.prefix)
        async with beside(recall.run()):
            yield
