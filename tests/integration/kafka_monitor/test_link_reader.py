"""Links to other partitions are read again by a partition that has forgotten them."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import orjson
import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import read_all
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.records import Out
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.topics import ensure_topics, forget_records
from crawlstream.keys import Topics
from crawlstream.tasks import beside
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.codec.link_records import pack_links
from crawlstream_frontier.partitions.answers import ANSWER_S
from crawlstream_frontier.partitions.frontiers import Frontiers, RedisServer
from crawlstream_frontier.partitions.labelling import Labelling
from kafka_monitor.partitions.link_reader import LinkReader
from kafka_monitor.rejections import RejectionPublisher
from support import servers
from support.partitions.two import Two, open_two
from support.waiting import wait_until

PLACE, GROUP = 1, "monitors"
SENDINGS = 7
"""Number of links sent one after the other."""


class LinkTopic:
    """The topic of links of a frontier of two partitions, and who reads it."""

    def __init__(self, two: Two, kafka: Kafka, topics: Topics, sink: KafkaSink) -> None:
        self.two = two
        self._kafka, self._topics, self._sink = kafka, topics, sink
        self._frontiers = Frontiers(two.partitions, [_server(two.redis)])

    def place_first(self, redis: Redis) -> None:
        """Partition 0 is in a Redis of its own."""
        both = [_server(redis), _server(self.two.redis)]
        self._frontiers = Frontiers(self.two.partitions, both)

    async def send(self, values: Sequence[bytes], *, to: int = PLACE) -> None:
        """Links to a partition."""
        await self._sink.send([Out(self._topics.links, one, partition=to) for one in values])

    async def applied(self, partition: int) -> int:
        """How many records of its links a partition has had."""
        known = await self._frontiers[partition].positions.known()
        return max(at for (_, place), at in known.items() if place == partition)

    async def seconds_until(self, applied: int) -> float:
        """How long partition 1 takes for one more record."""
        began = time.monotonic()
        await self.send([b"no record of ours"])
        await wait_until(lambda: self.has_applied(PLACE, applied))
        return time.monotonic() - began

    async def has_applied(self, partition: int, number: int) -> bool:
        """Return whether a partition has had that number of links."""
        return await self.applied(partition) == number

    def commit(self, offset: int) -> None:
        """The group has read requests up to an offset, as every partition had."""
        consumer = KafkaConsumer(bootstrap_servers=self._kafka.hosts, group_id=GROUP)
        place = TopicPartition(self._topics.incoming, 0)
        consumer.assign([place])
        consumer.commit({place: OffsetAndMetadata(offset, "", -1)})
        consumer.close()

    async def request(self) -> None:
        """Any record at all for homes."""
        await self._sink.send([Out(self._topics.incoming, b"{}", partition=0)])

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Read for the length of the block."""
        labelling = Labelling(self._frontiers)
        rejects = RejectionPublisher(Outbound(self._sink, self._topics, per_app=False))
        reader = LinkReader(
            self._frontiers,
            labelling,
            rejects,
            kafka=self._kafka,
            topics=self._topics,
            group=GROUP,
        )
        async with beside(reader.run()):
            yield
        await labelling.stop()

    async def rejected(self) -> list[object]:
        """Offset and reason of each record that was refused."""
        records = await read_all(self._kafka, self._topics.rejected)
        told = [orjson.loads(record.value or b"{}") for record in records]
        return [(each["offset"], each["reason"]) for each in told]

    async def rejected_of(self) -> list[str]:
        """Topic of each record that was refused."""
        records = await read_all(self._kafka, self._topics.rejected)
        return [orjson.loads(record.value or b"{}")["topic"] for record in records]

    @property
    def name(self) -> str:
        """Its name in Kafka."""
        return self._topics.links

    async def delete_before(self, offset: int) -> None:
        """Kafka deletes what partition 1 has not read."""
        await forget_records(self._kafka, self.name, {PLACE: offset})

    async def queued(self) -> int:
        """Links that wait in partition 1."""
        return (await self.two.parts[PLACE].frontier.queries.state()).queued


def _server(redis: Redis) -> RedisServer:
    return RedisServer(name="redis", redis=redis, waiting=redis)


@pytest.fixture
async def topic(
    redis: Redis, kafka_server: RunningServer, fresh_name: str
) -> AsyncIterator[LinkTopic]:
    """An empty topic, and two partitions whose links it has."""
    kafka = Kafka([f"127.0.0.1:{kafka_server.port}"], shape=TopicShape(partitions=1))
    topics = Topics(fresh_name)
    await ensure_topics(kafka, topics, 2)
    async with KafkaSink(kafka) as sink:
        yield LinkTopic(await open_two(redis), kafka, topics, sink)


async def _links_of_a_page(two: Two) -> list[bytes]:
    """A page of partition 0 leads to partition 1."""
    await two.feed()
    await two.confirm(0)
    _, origin = await two.page(0)
    return pack_links(origin, two.links("b"))


async def test_links_are_read_again_though_nothing_more_comes(topic: LinkTopic) -> None:
    """A partition that has lost its last seconds is seen, or its run would never end."""
    values = await _links_of_a_page(topic.two)
    before = await topic.two.parts[PLACE].moment()
    async with topic.reading():
        await topic.send(values)
        await wait_until(lambda: _has(topic, 2))
        await topic.two.parts[PLACE].go_back(before, 2)
        assert await topic.queued() == 1
        await wait_until(lambda: _has(topic, 2))


async def test_links_wait_until_a_lost_partition_has_its_seeds(topic: LinkTopic) -> None:
    """A link that came before the seed with its URL would be fetched in addition."""
    values = await _links_of_a_page(topic.two)
    part = topic.two.parts[PLACE]
    await part.redis.hdel(part.keys.positions(), "incoming:0")
    await topic.request()
    topic.commit(1)
    await topic.send(values)
    async with topic.reading():
        await asyncio.sleep(2)
        assert await topic.queued() == 1
        await part.redis.hset(part.keys.positions(), "incoming:0", 1)
        await wait_until(lambda: _has(topic, 2))


async def test_what_is_no_record_of_links_is_told_and_passed(topic: LinkTopic) -> None:
    """Links before and behind it enter, and each is refused with a reason."""
    (value,) = await _links_of_a_page(topic.two)
    await topic.send([b"no record of ours", value, value[:-1], b"\x00" * 1_000])
    async with topic.reading():
        await wait_until(lambda: _has(topic, 2))
        await wait_until(lambda: _has_refused(topic, 3))
    assert await topic.rejected() == [(offset, "unreadable_links") for offset in (0, 2, 3)]
    assert await topic.applied(PLACE) == 4


async def test_links_that_kafka_has_deleted_are_told_and_passed(topic: LinkTopic) -> None:
    """The marker names their topic and the first of them; the links behind them enter."""
    await topic.send([b"no record of ours"])
    async with topic.reading():
        await wait_until(lambda: topic.has_applied(PLACE, 1))
    (value,) = await _links_of_a_page(topic.two)
    await topic.send([b"deleted", b"deleted", value])
    await topic.delete_before(3)
    async with topic.reading():
        await wait_until(lambda: _has(topic, 2))
    assert await topic.rejected() == [(0, "unreadable_links"), (1, "links_out_of_range")]
    assert await topic.rejected_of() == [topic.name] * 2


async def test_one_partition_that_hangs_holds_up_no_other(topic: LinkTopic, tmp_path: Path) -> None:
    """Links of the others take the time that they always take; its own wait for its answer."""
    with servers.redis(tmp_path) as hanging:
        async with Redis(host="127.0.0.1", port=hanging.port, socket_timeout=4) as redis:
            await open_two(redis)
            topic.place_first(redis)
            async with topic.reading():
                await topic.send([b"no record of ours"], to=0)
                await wait_until(lambda: topic.has_applied(0, 1))
                hanging.signal(signal.SIGSTOP)
                await topic.send([b"no record of ours"], to=0)
                paces = [await topic.seconds_until(n) for n in range(1, SENDINGS + 1)]
                assert median(paces) < ANSWER_S / 2, paces
                hanging.signal(signal.SIGCONT)
                await wait_until(lambda: topic.has_applied(0, 2))


async def _has_refused(topic: LinkTopic, number: int) -> bool:
    return len(await topic.rejected()) == number


async def _has(topic: LinkTopic, queued: int) -> bool:
    return await topic.queued() == queued
