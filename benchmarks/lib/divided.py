"""A frontier of several partitions under load, each on a Redis of its own or all in one.

What processes do between partitions is done here by plain calls: coordinators enroll seeds,
partitions take them, labels are asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

from lib.harness import own_redis
from lib.load import FILLER, SPIDER, WIDE_OPEN, put_all
from redis.asyncio import Redis

from crawlstream.errors import NotRestored
from crawlstream.keys import Partitions
from crawlstream.model.crawl import CrawlKey, Entry, Lease, Profile
from crawlstream.model.effects import IntakeBatch, Links, Loss, Seed
from crawlstream.model.partitions.messages import Stamp
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.wire.stored import encode_entry
from crawlstream_frontier.opening.startup_check import check_frontiers
from crawlstream_frontier.partitions.confirm import confirm
from crawlstream_frontier.partitions.frontiers import Frontiers, RedisServer
from crawlstream_frontier.worker.session import WorkerSession

INCOMING, LINKS = "incoming", "links"
"""In place of the UUIDs of topics, where there is no Kafka."""


@asynccontextmanager
async def several_redis(first: Redis, number: int) -> AsyncIterator[Sequence[Redis]]:
    """Run ``number`` Redis servers, of which the first runs already."""
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(own_redis()) for _ in range(number - 1)]
        yield [first, *others]


async def open_divided(servers: Sequence[Redis], number: int) -> Frontiers:
    """Open an empty frontier of ``number`` partitions under one rule; restore coordinators."""
    for redis in servers:
        await redis.flushall()
    frontiers = Frontiers(
        Partitions(number=number), [RedisServer(name="bench", redis=r, waiting=r) for r in servers]
    )
    await check_frontiers(frontiers)
    await frontiers.rules.copy(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
    if number == 1:
        loss = Loss(topic_id=INCOMING, kafka_partition=0, offset=0)
        await frontiers.root.positions.restore(loss)
        return frontiers
    for p, frontier in enumerate(frontiers):
        await frontier.reading.begin(INCOMING, 0, 0)
        await frontier.reading.begin(LINKS, p, 0)
        await frontier.coordinator.begin(INCOMING, 0, 0)
        await restore(frontiers, p)
    return frontiers


async def restore(frontiers: Frontiers, partition: int) -> None:
    """Mark a coordinator as restored, with nothing lost."""
    coordinator = frontiers[partition].coordinator
    try:
        await coordinator.labels([])
    except NotRestored as error:
        await coordinator.restore(error.redis_epoch, [])


def seed_domain(partitions: Partitions, partition: int) -> str:
    """A domain of a partition, in which nothing else is."""
    names = (f"seed-{n}.example" for n in count())
    return next(name for name in names if partitions.of(name) == partition)


def seed(offset: int, domain: str, crawl: CrawlKey) -> Seed:
    """A request for the first page of a domain."""
    return Seed(
        offset=offset,
        timestamp_ms=0,
        crawl=crawl,
        domain=domain,
        priority=100,
        fingerprint=str(offset),
        entry=encode_entry(Entry(url=f"http://{domain}/")),
        profile=Profile(),
    )


async def feed(frontiers: Frontiers, seeds: Sequence[Seed]) -> None:
    """Let consecutive seeds take effect where they belong, and be leased."""
    batch = IntakeBatch(
        topic_id=INCOMING,
        kafka_partition=0,
        start=seeds[0].offset,
        next=seeds[-1].offset + 1,
        records=seeds,
    )
    if len(frontiers) == 1:
        await frontiers.root.intake.apply(batch)
        return
    stamps = dict[int, Stamp]()
    for p, frontier in enumerate(frontiers):
        own = [one for one in seeds if frontiers.partitions.coordinator(one.crawl) == p]
        stamps |= (await frontier.coordinator.enroll(_with(batch, own))).stamps
    for p, frontier in enumerate(frontiers):
        own = [one for one in seeds if frontiers.partitions.of(one.domain) == p]
        taken = await frontier.reading.take(_with(batch, own), stamps)
        await confirm(
            lambda crawl: frontiers.coordinator(crawl).coordinator,
            frontier.contexts,
            await frontier.contexts.epoch(),
            taken.unconfirmed,
        )


def _with(batch: IntakeBatch, records: Sequence[Seed]) -> IntakeBatch:
    return IntakeBatch(
        topic_id=batch.topic_id,
        kafka_partition=batch.kafka_partition,
        start=batch.start,
        next=batch.next,
        records=records,
    )


async def hold_seeds(frontiers: Frontiers, crawl: CrawlKey) -> list[tuple[WorkerSession, Lease]]:
    """Feed a seed in each partition, and hold it: under it links can be put."""
    every = range(len(frontiers))
    await feed(frontiers, [seed(p, seed_domain(frontiers.partitions, p), crawl) for p in every])
    fillers = [frontiers.session(p, FILLER, SPIDER) for p in every]
    return [(filler, (await filler.exchange(want=1)).leases[0]) for filler in fillers]


async def fill_divided(
    frontiers: Frontiers, fillers: Sequence[tuple[WorkerSession, Lease]], groups: Sequence[Links]
) -> None:
    """Put groups of links where they belong."""
    for p, (filler, lease) in enumerate(fillers):
        own = [group for group in groups if frontiers.partitions.of(group.domain) == p]
        await put_all(filler, lease, own)
