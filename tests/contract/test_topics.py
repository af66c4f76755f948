"""Promises of a topic as a sink beyond those of every sink."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Callable

import pytest
from kafka.admin import KafkaAdminClient

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.liveness import Liveness
from crawlstream.boot.settings import load_settings
from crawlstream.bus.compacted_topic import CompactedTopic
from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out, RecordTooLarge
from crawlstream.bus.topics import create_missing
from crawlstream.bus.transactions import Transactions
from crawlstream.errors import ConfigError
from crawlstream_chaos.processes import RunningServer
from pipeline_service.records.judging import judge
from pipeline_service.sink_factory import prove
from pipeline_service.sinks.sink import SinkRefused
from pipeline_service.spec.sinks import KafkaSpec
from support.bus.values import committed
from support.pipelines import writer
from support.pipelines.results import page_id, record
from support.pipelines.targets import Target
from support.session.own import own_kafka_server
from support.waiting import WaitUntil

__all__ = ["own_kafka_server"]

MakeTarget = Callable[..., Target]


@pytest.fixture
def target(make_target: MakeTarget) -> Target:
    """An empty topic."""
    return make_target("kafka")


@pytest.fixture
def kafka(target: Target) -> Kafka:  # noqa: ARG001  it starts Kafka
    """Where it is."""
    return kafka_of(load_settings(), "test")


def topic_of(target: Target) -> str:
    """Its name."""
    sink = writer.pipeline(target.sink).sink
    assert isinstance(sink, KafkaSpec)
    return sink.topic


def make_topic(kafka: Kafka, name: str, **configs: str) -> None:
    """A topic as another program makes one."""
    shape = dict(kafka.shape.options())
    create_missing(kafka, {name: {**shape, "configs": configs}})


def test_what_was_left_open_is_never_read(target: Target, kafka: Kafka, fresh_name: str) -> None:
    """A process that takes the name over has it aborted, and the one before gets an error."""
    topic = f"{fresh_name}.plain"
    make_topic(kafka, topic)
    before = Transactions(kafka, fresh_name)
    before._producer.begin_transaction()
    before._send([Out(topic, b"cut off", b"k")], time.monotonic() + 20)
    after = Transactions(kafka, fresh_name)
    assert after.write([Out(topic, b"whole", b"k")])
    assert committed(target.env["KAFKA_HOSTS"], topic) == [b"whole"]
    table = CompactedTopic(kafka, topic, b"k")
    assert table.read() == {b"k": b"whole"}
    late = Transactions(kafka, fresh_name)
    assert not after.write([Out(topic, b"too late", b"k")])
    assert late.write([Out(topic, b"", b"k", deletes=True), Out(topic, b"x", b"other")])
    assert table.read() == {}
    for each in (before, after, late):
        each.close()
    table.close()


async def test_a_record_that_the_topic_refuses_is_undelivered(target: Target, kafka: Kafka) -> None:
    """It is larger than the topic allows; the rest of its batch is written."""
    make_topic(kafka, topic_of(target), **{"max.message.bytes": "50000"})
    asked, noise = writer.pipeline(target.sink), random.Random(7).randbytes(80_000)
    records = [record(1), record(2, body=noise, encoding="binary"), record(3)]
    batch = writer.batch_of(records)
    async with writer.sink_of(asked, target.spool) as sink:
        await sink.position(writer.TOPIC, 0)
        judged = judge(asked, batch)
        with pytest.raises(SinkRefused) as refused:
            await sink.write(batch, judged, Liveness("write"))
        assert set(refused.value.problems) == {1}
        judged = refused.value.without(judged)
        assert await sink.write(batch, judged, Liveness("write")) is None
    assert target.ids() == Counter(page_id(n) for n in (1, 3))
    assert target.standing().account.total.undelivered == {"sink_refused": 1}


def test_a_refusal_amid_a_transaction_names_the_record(
    target: Target, kafka: Kafka, fresh_name: str
) -> None:
    """Kafka refuses it while others are handed over; those cannot be, and it is named."""
    make_topic(kafka, topic_of(target), **{"max.message.bytes": "50000"})
    large = Out(topic_of(target), random.Random(7).randbytes(80_000), b"large")
    others = [Out(topic_of(target), b"x" * 500, b"%d" % n) for n in range(30_000)]
    producer = Transactions(kafka, fresh_name)
    with pytest.raises(RecordTooLarge) as refused:
        producer.write([large, *others])
    producer.close()
    assert large in refused.value.records
    assert committed(target.env["KAFKA_HOSTS"], topic_of(target)) == []


def test_without_transactions_pages_are_there_at_least_once(make_target: MakeTarget) -> None:
    """Position and rows are apart, so that what was written before a death may come again."""
    target = make_target("kafka", ", exactly_once = false")
    for at in ("before_write:kill:2", "in_write:kill:2", "after_write:kill:2", ""):
        with target.start(at) as process:
            assert process.wait() == (-signal.SIGKILL if at else 0)
    assert set(target.ids()) == {page_id(n) for n in range(writer.PAGES)}
    standing = target.standing()
    assert standing.position == len(writer.values())
    assert standing.account.total.is_closed


@pytest.mark.parametrize("name", ["crawled_firehose", "crawled_app", "undelivered", "pipelines"])
def test_a_topic_of_the_cluster_is_no_sink(name: str, target: Target) -> None:
    """A pipeline would read what it writes, or others would."""
    own = topic_of(target).removesuffix("out") + name
    asked = writer.pipeline(f'kind = "kafka", topic = "{own}"')
    with pytest.raises(ConfigError, match="is one of the cluster itself"):
        prove(load_settings(), asked)


@pytest.mark.parametrize("most", [0, 300])
async def test_repeats_are_known_as_far_as_they_are_remembered(most: int, target: Target) -> None:
    """Across owners: the last pages of a partition, in whole notes, or none."""
    asked, pages = writer.pipeline(target.sink, f"repeats = {most}"), 900
    batches = [range(n, n + 90) for n in range(0, pages, 90)]
    start = 0
    for numbers in [*batches, range(pages - 90, pages), range(10)]:
        batch = writer.batch_of([record(n) for n in numbers], start)
        async with writer.sink_of(asked, target.spool) as sink:
            assert await sink.position(writer.TOPIC, 0) in (None, start)
            assert await sink.write(batch, judge(asked, batch), Liveness("write")) is None
        start = batch.next
    total = target.standing().account.total
    assert (total.read, total.repeats) == (1_000, 90 if most else 0)


async def test_a_pipeline_waits_for_its_topic(
    target: Target, kafka_server: RunningServer, wait_until: WaitUntil
) -> None:
    """Waits for an unavailable topic and reports it; later, each page is there once."""
    asked, live = writer.pipeline(target.sink), Liveness("write")
    async with writer.sink_of(asked, target.spool) as sink:
        await sink.position(writer.TOPIC, 0)
        first, second = writer.batch_of([record(0)]), writer.batch_of([record(1)], 1)
        assert await sink.write(first, judge(asked, first), live) is None
        kafka_server.signal(signal.SIGSTOP)
        try:
            writing = asyncio.create_task(sink.write(second, judge(asked, second), live))
            await wait_until(lambda: "Kafka" in live.waiting_for, timeout_s=240)
        finally:
            kafka_server.signal(signal.SIGCONT)
        assert await writing in (None, 2)
        assert live.waiting_for == ""
    assert target.ids() == Counter(page_id(n) for n in range(2))


def test_a_topic_that_was_made_anew_is_read_anew(target: Target, kafka: Kafka) -> None:
    """Earlier content of a table is forgotten."""
    topic = f"{topic_of(target)}.again"
    make_topic(kafka, topic)
    table, plain = CompactedTopic(kafka, topic, b""), Transactions(kafka, None)
    assert plain.write([Out(topic, b"1", b"a"), Out(topic, b"2", b"a"), Out(topic, b"3", b"b")])
    assert table.read() == {b"a": b"2", b"b": b"3"}
    assert plain.write([Out(topic, b"5", b"a")])
    assert table.read() == {b"a": b"5", b"b": b"3"}
    plain.close()
    client = KafkaAdminClient(bootstrap_servers=target.env["KAFKA_HOSTS"])
    client.delete_topics([topic])
    client.close()
    make_topic(kafka, topic)
    again = Transactions(kafka, None)
    assert again.write([Out(topic, b"4", b"a")])
    assert table.read() == {b"a": b"4"}
    again.close()
    table.close()
