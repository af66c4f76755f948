"""Two partitions on real scripts, in a line a call."""

from __future__ import annotations

from dataclasses import replace

from redis.asyncio import Redis

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Command, IntakeBatch, OutboxRecord, Seed
from crawlstream.model.partitions.messages import (
    CoordinatorMark,
    Enrolled,
    LinkOrigin,
    Question,
    Stamp,
)
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.codec.link_records import read_links
from crawlstream_frontier.partitions.confirm import confirm
from support.partitions.real import LINKS, RealCluster
from support.partitions.values import Cluster

TWO = Cluster({"a": 0, "b": 1, "c": 1}, {"a": "b"}, "ac")


class Two(RealCluster):
    """Two partitions whose seeds are where they belong, and that have their labels."""

    generation = 0
    """The one of the crawl that partitions ask about."""

    async def feed(self) -> dict[int, Stamp]:
        """Enroll and take all seeds."""
        stamps = dict((await self.parts[0].coordinator.enroll(self.batch(0, 2))).stamps)
        for place, part in enumerate(self.parts):
            await part.reading.begin("incoming", 0, 0)
            records = [r for r in self.records if isinstance(r, Seed) and self._is_in(r, place)]
            batch = replace(self.batch(0, 2), records=records)
            await part.reading.take(batch, stamps)
        return stamps

    async def enroll(self, batch: IntakeBatch) -> Enrolled:
        """Enroll records; what has to be noted of one of them is."""
        coordinator = self.parts[0].coordinator
        done = await coordinator.enroll(batch)
        if done.note is not None and done.note.offset is not None:
            self.marks.append(done.note.mark())
            done = await coordinator.enroll(batch, {done.note.offset: done.note})
        assert done.note is None
        return done

    def _is_in(self, seed: Seed, place: int) -> bool:
        return self.partitions.of(seed.domain) == place

    async def confirm(self, place: int) -> int:
        """Ask the coordinator for a partition's label."""
        contexts = self.parts[place].contexts
        question = Question(self.context(self.generation), await self.wanted(place))
        epoch = await contexts.epoch()
        return await confirm(lambda _: self.parts[0].coordinator, contexts, epoch, [question])

    async def page(self, place: int) -> tuple[Lease, LinkOrigin]:
        """Some page of a partition, and what its links carry."""
        found = await self.lease(place)
        assert found
        origin = found[0].session.origin(found[0].lease.token)
        assert origin
        return found[0].lease, origin

    def link_batch(self, *values: bytes, start: int = 0) -> LinkBatch:
        """Records of the links of partition 1."""
        records = [read_links(start + n, value) for n, value in enumerate(values)]
        return LinkBatch(
            topic_id=LINKS,
            kafka_partition=1,
            start=start,
            next=start + len(values),
            records=records,
        )

    def stop(self, offset: int) -> Command:
        """A stop of the crawl."""
        return Command(
            offset=offset, timestamp_ms=offset, name="stop", request=b"{}", crawl=self.crawl
        )

    def end_mark(self, owed: OutboxRecord) -> CoordinatorMark:
        """How Kafka remembers an ending."""
        return CoordinatorMark(
            kind="end",
            redis_epoch=owed.redis_epoch,
            crawl=owed.crawl,
            generation=owed.generation or 0,
            run=owed.run,
            positions=owed.positions,
            remember=owed.remember,
        )

    async def tell(self) -> int:
        """Deliver changes, as redis-monitors do repeatedly; return how many are left."""
        coordinator = self.parts[0].coordinator
        tells = await coordinator.changes()
        for place, part in enumerate(self.parts):
            await coordinator.acknowledge(
                await part.contexts.deliver([t for t in tells if t.partition == place])
            )
        return len(await coordinator.changes())


async def open_two(redis: Redis) -> Two:
    """Two partitions with nothing in them."""
    real = Two(redis, TWO)
    await real.begin()
    for part in real.parts:
        await part.redis.hset(part.keys.positions(), "incoming:0", 0)
    return real
