"""Topics as they are made, checked and read by hand, on a real Kafka."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial

import pytest
from kafka import KafkaConsumer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.protocol.metadata import MetadataRequest

from crawlstream.bus import connect
from crawlstream.bus import shape as shape_module
from crawlstream.bus import topics as topics_module
from crawlstream.bus.compacted_topic import CompactedTopic
from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import partition_offsets
from crawlstream.bus.records import Out
from crawlstream.bus.shape import ENVELOPE_BYTES, INCOMING_RETENTION_MS, TopicShape
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.tail import end_offsets, read_topic
from crawlstream.bus.topics import (
    _existing_settings,
    _replicas,
    _too_few,
    ensure_topics,
    forget_records,
    list_topics,
    retention_ms,
    topic_problems,
)
from crawlstream.errors import KafkaUnavailable
from crawlstream.keys import Topics
from support.bus.pipe import LEAVES_SOCKETS, MIB
from support.waiting import WaitUntil

pytest_plugins = ["support.bus.fixtures"]
pytestmark = LEAVES_SOCKETS


@pytest.fixture
async def topics(hosts: list[str], fresh_name: str) -> Topics:
    """The topics of a prefix of this test's own."""
    topics = Topics(fresh_name)
    await ensure_topics(
        Kafka(hosts, shape=TopicShape(partitions=2, max_record_bytes=2 * MIB)), topics
    )
    return topics


@pytest.fixture
async def sink(hosts: list[str]) -> AsyncIterator[KafkaSink]:
    """A sink that is running."""
    async with KafkaSink(Kafka(hosts)) as sink:
        yield sink


def configs_of(hosts: list[str], topic: str) -> dict[str, str]:
    """Every setting of a topic."""
    admin = KafkaAdminClient(bootstrap_servers=hosts)
    try:
        asked = [ConfigResource(ConfigResourceType.TOPIC, topic)]
        answer = admin.describe_configs(asked, config_filter="all")
        return {name: value["value"] for name, value in answer["topic"][topic].items()}
    finally:
        admin.close()


async def test_what_was_spilled_is_kept_until_it_is_forgotten(
    hosts: list[str], topics: Topics, sink: KafkaSink
) -> None:
    """Keeps spilled records until their reader deletes them, up to an offset."""
    configs = await asyncio.to_thread(configs_of, hosts, topics.overflow)
    assert (configs["retention.ms"], configs["retention.bytes"]) == ("-1", "-1")
    await sink.send([Out(topics.overflow, b"%d" % n, b"key") for n in range(5)])
    (partition,) = (
        p for p, end in (await end_offsets(Kafka(hosts), topics.overflow)).items() if end
    )
    await forget_records(Kafka(hosts), topics.overflow, {partition: 3})
    left = [
        r
        async for r in read_topic(Kafka(hosts), topics.overflow, from_beginning=True, follow=False)
    ]
    assert [(record.offset, record.value) for record in left] == [(3, b"3"), (4, b"4")]


async def test_topics_are_made_in_their_shape(hosts: list[str], topics: Topics) -> None:
    """All topics exist afterwards; incoming is stamped by the broker and kept for two weeks."""
    assert set(topics.all()) <= set(await list_topics(Kafka(hosts)))
    incoming = await asyncio.to_thread(configs_of, hosts, topics.incoming)
    crawled = await asyncio.to_thread(configs_of, hosts, topics.crawled)
    assert incoming["message.timestamp.type"] == "LogAppendTime"
    assert incoming["retention.ms"] == str(14 * 24 * 3600 * 1000)
    assert crawled["message.timestamp.type"] == "CreateTime"
    assert int(crawled["max.message.bytes"]) > 2 * MIB
    assert set(await end_offsets(Kafka(hosts), topics.crawled)) == {0, 1}


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_broker_need_not_know_how_large_records_may_unpack(
    hosts: list[str],
    fresh_name: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_known: bool,
) -> None:
    """Topics are made with that bound where it is one, else with all others."""
    if not is_known:
        for module in (shape_module, topics_module):
            monkeypatch.setattr(module, "UNPACKED", "max.something.unheard.of")
    topics = Topics(fresh_name)
    await ensure_topics(
        Kafka(hosts, shape=TopicShape(partitions=1, max_record_bytes=2 * MIB)), topics
    )
    largest = str(2 * MIB + ENVELOPE_BYTES)
    for topic in topics.all():
        configs = await asyncio.to_thread(configs_of, hosts, topic)
        assert configs["max.message.bytes"] == largest
        assert (configs["max.decompressed.message.bytes"] == largest) == is_known
    incoming = await asyncio.to_thread(configs_of, hosts, topics.incoming)
    assert incoming["message.timestamp.type"] == "LogAppendTime"


async def test_topics_that_exist_are_left_alone(hosts: list[str], topics: Topics) -> None:
    """Making topics again changes nothing, even when two do it at once in another shape."""
    await asyncio.gather(
        *(
            ensure_topics(
                Kafka(hosts, shape=TopicShape(partitions=5, max_record_bytes=MIB)), topics
            )
            for _ in range(2)
        )
    )
    assert set(await end_offsets(Kafka(hosts), topics.crawled)) == {0, 1}


async def test_a_topic_too_small_for_its_records_is_told(hosts: list[str], topics: Topics) -> None:
    """A sentence for each topic that cannot hold the largest record, none if all can."""
    assert (
        await topic_problems(Kafka(hosts, shape=TopicShape(max_record_bytes=2 * MIB)), topics) == []
    )
    problems = await topic_problems(
        Kafka(hosts, shape=TopicShape(max_record_bytes=8 * MIB)), topics
    )
    assert len(problems) == len(topics.all())
    assert "max.message.bytes" in problems[0]


async def test_a_topic_that_an_operator_made_otherwise_is_told(
    hosts: list[str], fresh_name: str
) -> None:
    """Clients' clocks on requests, links that expire, runs that are forgotten: a sentence each."""
    topics = Topics(fresh_name)
    admin = KafkaAdminClient(bootstrap_servers=hosts)
    try:
        plain = {"num_partitions": 1, "replication_factor": 1, "configs": {}}
        names = (topics.incoming, topics.runs, topics.overflow)
        create = partial(admin.create_topics, wait_for_metadata=True)
        await asyncio.to_thread(create, dict.fromkeys(names, plain))
    finally:
        admin.close()
    problems = await topic_problems(Kafka(hosts, shape=TopicShape(max_record_bytes=0)), topics)
    assert [problem.split()[1] for problem in problems] == list(names)
    words = ("message.timestamp.type", "cleanup.policy", "retention.ms")
    assert all(word in problem for word, problem in zip(words, problems, strict=True))


def test_three_replicas_want_two_that_have_it() -> None:
    """Requires two in-sync replicas of three, so that either may be lost."""
    configs = [TopicShape(replication=count).options()["configs"] for count in (1, 2, 3, 4)]
    assert [each.get("min.insync.replicas") for each in configs] == [None, None, "2", "3"]


def test_three_replicas_of_which_one_acknowledges_are_told() -> None:
    """A single broker is enough if there are no more, or two; of three, two must have it."""
    told = {
        (replicas, enough): list(_too_few("t", replicas, enough))
        for replicas, enough in ((1, 1), (2, 1), (3, 1), (3, 2), (4, 1), (4, 3))
    }
    assert [shape for shape, problems in told.items() if problems] == [(3, 1), (4, 1)]
    assert "min.insync.replicas of the topic to 2" in told[3, 1][0]


async def test_how_many_replicas_there_are_is_asked(hosts: list[str], topics: Topics) -> None:
    """Each topic's own."""
    existing, _ = _existing_settings(Kafka(hosts), [*topics.all(), "nothing"], ["retention.ms"])
    assert {name: _replicas(found) for name, found in existing.items()} == dict.fromkeys(
        topics.all(), 1
    )


async def test_how_long_a_topic_keeps_its_records_is_told(hosts: list[str], topics: Topics) -> None:
    """Reports the retention of a topic in ms; -1 is unlimited, a missing topic has none."""
    assert await retention_ms(Kafka(hosts), topics.incoming) == INCOMING_RETENTION_MS
    assert await retention_ms(Kafka(hosts), topics.overflow) == -1
    with pytest.raises(KafkaUnavailable, match="topic nothing does not exist"):
        await retention_ms(Kafka(hosts), "nothing")


async def test_a_replication_that_cannot_be_had_is_told(hosts: list[str], fresh_name: str) -> None:
    """More replicas than brokers are refused with Kafka's own words."""
    with pytest.raises(KafkaUnavailable, match="replication factor of 3"):
        await ensure_topics(Kafka(hosts, shape=TopicShape(replication=3)), Topics(fresh_name))


async def test_a_topic_is_read_from_its_beginning_to_its_end(
    hosts: list[str], topics: Topics, sink: KafkaSink
) -> None:
    """Reads a topic to its end without follow; an empty topic ends at once."""
    assert [r async for r in read_topic(Kafka(hosts), topics.events, follow=False)] == []
    await sink.send([Out(topics.events, b"%d" % n, b"key") for n in range(5)])
    records = read_topic(Kafka(hosts), topics.events, from_beginning=True, follow=False)
    assert [r.value async for r in records] == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_topic_is_read_since_a_moment(
    hosts: list[str], topics: Topics, sink: KafkaSink
) -> None:
    """Records sent after the call of ``end_offsets`` are read, those before are not."""
    await sink.send([Out(topics.events, b"before")])
    now = await end_offsets(Kafka(hosts), topics.events)
    await sink.send([Out(topics.events, b"after")])
    async for record in read_topic(Kafka(hosts), topics.events, offsets=now):
        assert record.value == b"after"
        break


async def test_a_missing_topic_or_kafka_is_told_in_a_sentence(
    hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a missing topic raises KafkaUnavailable instead of waiting without end."""
    monkeypatch.setattr(connect, "BOOTSTRAP_TIMEOUT_MS", 500)
    with pytest.raises(KafkaUnavailable, match="topic nothing does not exist"):
        await end_offsets(Kafka(hosts), "nothing")
    with pytest.raises(KafkaUnavailable, match="does not answer"):
        await list_topics(Kafka(["127.0.0.1:1"]))


async def test_other_topics_are_not_requested(
    hosts: list[str], topics: Topics, sink: KafkaSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creating, checking and reading topics costs the same on a Kafka that has thousands."""
    requested: list[MetadataRequest] = []
    encode = MetadataRequest.encode

    def encode_and_note(request: MetadataRequest, **options: object) -> bytes:
        requested.append(request)
        return bytes(encode(request, **options))

    monkeypatch.setattr(MetadataRequest, "encode", encode_and_note)
    await sink.send([Out(topics.runs, b"1", b"key")])
    await ensure_topics(Kafka(hosts), topics)
    assert await end_offsets(Kafka(hosts), topics.events) == {0: 0, 1: 0}
    table = CompactedTopic(Kafka(hosts), topics.runs, b"k")
    assert await asyncio.to_thread(table.read) == {b"key": b"1"}
    await asyncio.to_thread(table.close)
    named = {each.name for request in requested for each in request.topics or [] if each}
    assert named == {*topics.all(), topics.pipelines}
    assert MetadataRequest.ALL_TOPICS not in [request.topics for request in requested]


async def test_who_hears_of_metadata_may_become_more_meanwhile(
    hosts: list[str], wait_until: WaitUntil
) -> None:
    """A listener added while others are called does not silence the client."""
    client, network = await asyncio.to_thread(
        connect.open_client, KafkaConsumer, **Kafka(hosts, "listeners").options()
    )
    heard = threading.Event()
    network.cluster.add_listener(
        lambda cluster: cluster.add_listener(lambda _: heard.set()),
    )
    try:
        # A listener that was added is called from the next time on, if there is one.
        await wait_until(lambda: network.cluster.request_update() and heard.is_set())
    finally:
        await asyncio.to_thread(client.close, timeout_ms=1_000)


async def test_links_have_a_kafka_partition_for_each_of_the_frontier(
    hosts: list[str], fresh_name: str
) -> None:
    """Creates a Kafka partition of links for each partition of the frontier, and missing ones."""
    kafka, topics = Kafka(hosts, shape=TopicShape(partitions=1)), Topics(fresh_name)
    await ensure_topics(kafka, topics, 3)
    assert [*await partition_offsets(kafka, topics.links, group="g")] == [0, 1, 2]
    await ensure_topics(kafka, topics, 3)
    for moved_into in (4, 2):
        await ensure_topics(kafka, topics, moved_into)
        found = await partition_offsets(kafka, topics.links, group="g")
        assert [*found] == [0, 1, 2, 3]


async def test_a_frontier_of_one_partition_has_no_links(hosts: list[str], fresh_name: str) -> None:
    """Its links stay in it."""
    kafka, topics = Kafka(hosts, shape=TopicShape(partitions=1)), Topics(fresh_name)
    await ensure_topics(kafka, topics)
    assert topics.links not in await list_topics(kafka)
