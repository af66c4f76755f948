"""The sink on a real Kafka: what it acknowledges is there, what is not there it gives back."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from kafka.admin import KafkaAdminClient

from crawlstream.bus import connect
from crawlstream.bus import sink as sink_module
from crawlstream.bus import writer as writer_module
from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import NO_OFFSET, NotAcknowledged, Out, Record, RecordTooLarge
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.tail import read_topic
from crawlstream.bus.topics import ensure_topics, list_topics
from crawlstream.errors import KafkaUnavailable
from crawlstream.keys import Topics
from crawlstream.retry import Backoff, until_available
from crawlstream_chaos.processes import RunningServer
from support.bus.pipe import LEAVES_SOCKETS, MIB
from support.session.own import own_kafka_server
from support.waiting import WaitUntil

__all__ = ["own_kafka_server"]

pytest_plugins = ["support.bus.fixtures"]
pytestmark = LEAVES_SOCKETS


@pytest.fixture
async def topic(hosts: list[str], fresh_name: str) -> str:
    """A topic of this test's own, with two partitions."""
    topics = Topics(fresh_name)
    await ensure_topics(Kafka(hosts, shape=TopicShape(partitions=2)), topics)
    return topics.crawled


@pytest.fixture
async def sink(hosts: list[str]) -> AsyncIterator[KafkaSink]:
    """A sink that is running."""
    async with KafkaSink(Kafka(hosts, shape=TopicShape(partitions=1))) as sink:
        yield sink


async def read_all(hosts: list[str], topic: str) -> list[Record]:
    """All that is on a topic now."""
    return [r async for r in read_topic(Kafka(hosts), topic, from_beginning=True, follow=False)]


async def longest_pause_of_the_loop(until: asyncio.Task[None]) -> float:
    """The longest time, in seconds, that the event loop did not come round."""
    longest, last = 0.0, time.monotonic()
    while not until.done():
        await asyncio.sleep(0.005)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    return longest


async def test_an_acknowledged_list_is_in_kafka(
    hosts: list[str], topic: str, sink: KafkaSink
) -> None:
    """Returns from send when every record can be read, in order for each key."""
    await sink.send([Out(topic, b"%d" % n, b"k%d" % (n % 3)) for n in range(300)])
    records = await read_all(hosts, topic)
    for key in (b"k0", b"k1", b"k2"):
        values = [int(r.value or b"") for r in records if r.key == key]
        assert values == sorted(values)
    assert Counter(r.value for r in records) == Counter(b"%d" % n for n in range(300))


async def test_it_is_told_where_each_record_is(
    hosts: list[str], topic: str, sink: KafkaSink
) -> None:
    """Reports the offset of each record, in the partition of its key or the named one."""
    records = [Out(topic, b"%d" % n, b"k%d" % (n % 5)) for n in range(100)]
    records += [Out(topic, b"own %d" % n, partition=n % 2) for n in range(100)]
    offsets = await sink.send(records)
    there = {record.value: record for record in await read_all(hosts, topic)}
    assert list(offsets) == [there[record.value].offset for record in records]
    own = [there[b"own %d" % n].partition for n in range(100)]
    assert own == [n % 2 for n in range(100)]


async def test_one_that_was_left_out_has_no_offset(topic: str, sink: KafkaSink) -> None:
    """The others of its list have theirs."""
    bad = Out("no topic has such a name!", b"x", optional=True)
    first, second, third = await sink.send([Out(topic, b"a", partition=1), bad, bad])
    assert (first, second, third) == (0, NO_OFFSET, NO_OFFSET)
    assert list(await sink.send([bad])) == [NO_OFFSET]


async def test_a_partition_that_the_topic_lacks_is_not_acknowledged(
    topic: str, sink: KafkaSink
) -> None:
    """The record is given back; the others of its list arrive, and those that come after."""
    lacking = Out(topic, b"x", partition=2)
    with pytest.raises(NotAcknowledged) as refused:
        await sink.send([Out(topic, b"a", partition=0), lacking])
    assert list(refused.value.records) == [lacking]
    assert await sink.send([Out(topic, b"b", partition=0)]) == [1]


async def test_a_record_of_five_megabytes_goes_through(
    hosts: list[str], topic: str, sink: KafkaSink
) -> None:
    """The largest page that is published fits."""
    body = bytes(range(256)) * (5 * MIB // 256)
    await sink.send([Out(topic, body)])
    (record,) = await read_all(hosts, topic)
    assert record.value == body


async def test_a_record_too_large_is_named_and_the_others_arrive(
    hosts: list[str], topic: str, sink: KafkaSink
) -> None:
    """Refuses only a record that is too large, and continues with the others."""
    giant = Out(topic, b"x" * (9 * MIB))
    with pytest.raises(RecordTooLarge) as refused:
        await sink.send([Out(topic, b"before"), giant, Out(topic, b"after")])
    assert list(refused.value.records) == [giant]
    await sink.send([Out(topic, b"later")])
    values = {record.value for record in await read_all(hosts, topic)}
    assert values == {b"before", b"after", b"later"}


async def test_a_topic_smaller_than_a_batch_gets_each_record_once(
    hosts: list[str], fresh_name: str
) -> None:
    """Batches that do not compress are halved until the topic takes them; none is cut or lost."""
    small = Topics(fresh_name)
    await ensure_topics(Kafka(hosts, shape=TopicShape(partitions=1, max_record_bytes=MIB)), small)
    records = [Out(small.crawled, random.Random(n).randbytes(100_000)) for n in range(100)]
    async with KafkaSink(Kafka(hosts)) as sink:
        await asyncio.gather(*(sink.send([record]) for record in records))
    found = Counter(record.value for record in await read_all(hosts, small.crawled))
    assert found == Counter(record.value for record in records)


async def test_a_topic_smaller_than_the_record_fails_only_that_record(
    hosts: list[str], fresh_name: str
) -> None:
    """A refusal by the broker ends kafka-python's producer; concurrent lists are not blamed."""
    small, other = Topics(fresh_name), Topics(f"{fresh_name}.other")
    await ensure_topics(Kafka(hosts, shape=TopicShape(partitions=1, max_record_bytes=MIB)), small)
    await ensure_topics(Kafka(hosts, shape=TopicShape(partitions=1)), other)
    sink = KafkaSink(Kafka(hosts))
    await sink.start()
    giant = Out(small.crawled, bytes(range(256)) * (3 * MIB // 256) + b"\0" * 100)
    lists = [[Out(other.crawled, b"%d" % n)] for n in range(50)]
    sending = [asyncio.create_task(sink.send(each)) for each in (*lists, [noise(giant)])]
    *answers, verdict = await asyncio.gather(*sending, return_exceptions=True)
    assert isinstance(verdict, RecordTooLarge)
    lost = [a for a in answers if isinstance(a, BaseException)]
    assert all(isinstance(answer, NotAcknowledged) for answer in lost)
    for answer in lost:
        assert isinstance(answer, NotAcknowledged)
        await sink.send(answer.records)
    await sink.stop()
    values = {record.value for record in await read_all(hosts, other.crawled)}
    assert values == {b"%d" % n for n in range(50)}


def noise(record: Out) -> Out:
    """A record with a value that does not compress."""
    return Out(record.topic, random.Random(1).randbytes(len(record.value)))


async def test_what_is_under_way_is_bounded(
    hosts: list[str], topic: str, sink: KafkaSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists beyond the bound wait in send; each gets its turn."""
    monkeypatch.setattr(sink_module, "MAX_RECORDS", 10)
    most = 0

    async def send(number: int) -> None:
        nonlocal most
        await sink.send([Out(topic, b"%d" % number)] * 4)
        most = max(most, sum(len(delivery.records) for delivery in sink._under_way))

    await asyncio.gather(*(send(n) for n in range(40)))
    assert 0 < most <= 10
    assert len(await read_all(hosts, topic)) == 160


async def test_a_list_larger_than_the_bound_goes_alone(
    topic: str, sink: KafkaSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No list waits for room that can never be."""
    monkeypatch.setattr(sink_module, "MAX_BYTES", 1000)
    await asyncio.gather(*(sink.send([Out(topic, b"x" * 5000)]) for _ in range(5)))


async def test_topics_of_applications_are_made_on_first_use(
    hosts: list[str], topic: str, sink: KafkaSink
) -> None:
    """An optional record brings its topic; where that cannot be, only this record is left out."""
    await sink.send(
        [
            Out(topic, b"firehose"),
            Out(f"{topic}_app", b"own", optional=True),
            Out(f"{topic} no name", b"nowhere", optional=True),
        ]
    )
    assert [r.value for r in await read_all(hosts, topic)] == [b"firehose"]
    assert [r.value for r in await read_all(hosts, f"{topic}_app")] == [b"own"]
    assert f"{topic} no name" not in await list_topics(Kafka(hosts))


async def test_clients_make_no_more_topics_than_kafka_bears(
    hosts: list[str], fresh_name: str
) -> None:
    """Names that they make up cost a look a minute; topics that are there go on."""
    topics = Topics(fresh_name)
    shape = TopicShape(partitions=1, most=len(topics.all()) + 2)
    await ensure_topics(Kafka(hosts, shape=shape), topics)

    def own(app: str) -> Out:
        return Out(f"{topics.prefix}.crawled_{app}", app.encode(), optional=True)

    async with (
        KafkaSink(Kafka(hosts, shape=shape)) as sink,
        KafkaSink(Kafka(hosts, shape=shape)) as later,
    ):
        for app in ("one", "two", "three"):
            await sink.send([own(app), Out(topics.crawled, app.encode())])
        begun = time.monotonic()
        for number in range(500):
            await later.send([own(f"made-up{number}")])
        assert time.monotonic() - begun < 5
        await later.send([own("one")])
    assert [r.value for r in await read_all(hosts, own("one").topic)] == [b"one"] * 2
    assert {r.value for r in await read_all(hosts, topics.crawled)} == {b"one", b"two", b"three"}
    made = {name for name in await list_topics(Kafka(hosts)) if name.startswith(fresh_name)}
    assert made == {*topics.all(), own("one").topic, own("two").topic}


async def test_a_topic_of_an_application_that_was_deleted_is_made_again(
    hosts: list[str], topic: str, sink: KafkaSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creates a deleted topic of an application again after a failure, before the next record."""
    monkeypatch.setattr(writer_module, "DELIVERY_TIMEOUT_S", 6.0)
    own = Out(f"{topic}_gone", b"again", optional=True)
    await sink.send([own])
    sink._topics.forget(own.topic)
    admin = KafkaAdminClient(bootstrap_servers=hosts)
    await asyncio.to_thread(admin.delete_topics, [own.topic])
    await asyncio.to_thread(admin.close)
    await sink.send([own])
    assert [r.value for r in await read_all(hosts, own.topic)] == [b"again"]


async def test_the_event_loop_is_never_held_up(
    hosts: list[str], fresh_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that does not exist blocks kafka-python's send, but not the event loop."""
    monkeypatch.setattr(writer_module, "REQUEST_TIMEOUT_MS", 1000)

    async def send(sink: KafkaSink) -> None:
        with pytest.raises(NotAcknowledged, match=fresh_name):
            await sink.send([Out(f"{fresh_name}.missing", b"x")])

    async with KafkaSink(Kafka(hosts)) as sink:
        sending = asyncio.create_task(send(sink))
        assert await longest_pause_of_the_loop(sending) < 0.5
        await sending


async def test_a_frozen_broker_is_told_in_time_and_repeating_works(
    hosts: list[str],
    topic: str,
    kafka_server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The list comes back as not acknowledged; the same sink delivers it once Kafka answers."""
    for module, name, value in (
        (writer_module, "DELIVERY_TIMEOUT_S", 1.5),
        (writer_module, "REQUEST_TIMEOUT_MS", 1000),
        (connect, "REQUEST_TIMEOUT_MS", 1000),
        (sink_module, "_VERDICT_TIMEOUT_S", 3.0),
    ):
        monkeypatch.setattr(module, name, value)
    sink = KafkaSink(Kafka(hosts))
    await sink.start()
    await sink.send([Out(topic, b"warm")])
    kafka_server.signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(5):
            with pytest.raises(NotAcknowledged) as lost:
                await sink.send([Out(topic, b"frozen", b"key")])
    finally:
        kafka_server.signal(signal.SIGCONT)
    records = lost.value.records
    for _ in range(5):
        with contextlib.suppress(NotAcknowledged):
            await sink.send(records)
            break
    await sink.stop()
    assert b"frozen" in {record.value for record in await read_all(hosts, topic)}


async def test_an_optional_topic_is_not_left_out_because_kafka_is_frozen(
    hosts: list[str], topic: str, kafka_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sends none of a list until it is known whether its optional topic exists, then all of it."""
    monkeypatch.setattr(connect, "REQUEST_TIMEOUT_MS", 1000)
    own = f"{topic}_of_an_application"
    records = [Out(topic, b"page"), Out(own, b"page", optional=True)]
    async with KafkaSink(Kafka(hosts)) as sink:
        kafka_server.signal(signal.SIGSTOP)
        try:
            for _ in range(2):
                with pytest.raises(KafkaUnavailable):
                    await sink.send(records)
        finally:
            kafka_server.signal(signal.SIGCONT)
        backoff = Backoff(0.1, 1)
        await until_available(lambda: sink.send(records), backoff=backoff, on_wait=print)
    for each in (topic, own):
        assert [record.value for record in await read_all(hosts, each)] == [b"page"]


async def test_starting_waits_for_kafka_and_can_be_given_up(
    wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start without a Kafka is cancelled cleanly: the thread ends."""
    monkeypatch.setattr(connect, "BOOTSTRAP_TIMEOUT_MS", 500)
    sink = KafkaSink(Kafka(["127.0.0.1:1"]))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await sink.start()
    await sink.stop()
    await wait_until(
        lambda: not any(thread.name == "kafka-writer" for thread in threading.enumerate())
    )
    with pytest.raises(NotAcknowledged):
        await sink.send([Out("any", b"x")])


async def test_single_records_are_handed_over_together(hosts: list[str], topic: str) -> None:
    """Gathers records that may linger: in order, and all of them at the end."""
    sink = KafkaSink(Kafka(hosts, shape=TopicShape(partitions=1)), linger_ms=300)
    await sink.start()
    sends = [
        asyncio.create_task(sink.send([Out(topic, b"%d" % number, b"key")])) for number in range(20)
    ]
    await asyncio.sleep(0)
    await sink.stop()
    await asyncio.gather(*sends)
    found = [record.value for record in await read_all(hosts, topic)]
    assert found == [b"%d" % number for number in range(20)]


async def test_a_record_that_a_client_waits_for_does_not_linger(
    hosts: list[str], topic: str
) -> None:
    """It is handed over at once, with all that lingered until then; the next one soon after it."""
    sink = KafkaSink(Kafka(hosts, shape=TopicShape(partitions=1)), linger_ms=400_000)
    async with asyncio.timeout(60), sink:
        lingering = asyncio.create_task(sink.send([Out(topic, b"1", b"key")]))
        await asyncio.sleep(0)
        first = await sink.place(Out(topic, b"2", b"key"))
        await lingering
        second = await sink.place(Out(topic, b"3", b"key"))
    assert (first.offset, second.offset) == (1, 2)
