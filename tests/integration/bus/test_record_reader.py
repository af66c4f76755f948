"""Single records by their places, on a real Kafka."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from crawlstream.bus.connect import Kafka
from crawlstream.bus.record_reader import LOOKED_BACK, RecordReader, WantedRecord
from crawlstream.bus.records import Out
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.topics import ensure_topics, forget_records
from crawlstream.errors import KafkaUnavailable
from crawlstream.keys import Topics
from support.bus.pipe import LEAVES_SOCKETS, MIB

pytest_plugins = ["support.bus.fixtures"]
pytestmark = LEAVES_SOCKETS


@pytest.fixture
async def topic(hosts: list[str], fresh_name: str) -> str:
    """Return a topic with three partitions."""
    topics = Topics(fresh_name)
    shape = TopicShape(partitions=3, max_record_bytes=8 * MIB)
    await ensure_topics(Kafka(hosts, shape=shape), topics)
    return topics.crawled


@pytest.fixture
async def sink(hosts: list[str]) -> AsyncIterator[KafkaSink]:
    """Return a sink that is running."""
    shape = TopicShape(max_record_bytes=8 * MIB)
    async with KafkaSink(Kafka(hosts, shape=shape)) as sink:
        yield sink


@pytest.fixture
async def reader(hosts: list[str]) -> AsyncIterator[RecordReader]:
    """Return a reader that is stopped after the test."""
    reader = RecordReader(Kafka(hosts))
    yield reader
    await reader.stop()


def record(topic: str, number: int, size: int = 10) -> Out:
    """Return a record with a key and a value of its own."""
    value = f"{number} ".encode() * (size // len(f"{number} "))
    return Out(topic, value, key=f"key{number}".encode(), partition=number % 3)


async def test_records_of_all_partitions_are_read_at_once(
    topic: str, sink: KafkaSink, reader: RecordReader
) -> None:
    """Reads records of several partitions in any order, repeated ones too, for each reader."""
    for number in range(60):
        await sink.send([record(topic, number)])
    wanted = [WantedRecord(topic, n % 3, n // 3) for n in (59, 0, 31, 58, 31, 1, 2, 30, 0)]
    found = await asyncio.gather(*map(reader.read, wanted))
    assert [(one.partition, one.offset) for one in found if one] == [each[1:3] for each in wanted]
    assert [one.key for one in found if one][:2] == [b"key59", b"key0"]
    again = [await reader.read(place) for place in (wanted[0], wanted[0], wanted[1], wanted[0])]
    assert [one.key for one in again if one] == [b"key59", b"key59", b"key0", b"key59"]
    threads = [thread.name for thread in threading.enumerate()]
    assert len([name for name in threads if name.startswith("kafka-places")]) == 1


async def test_a_large_record_is_read_between_others(
    topic: str, sink: KafkaSink, reader: RecordReader
) -> None:
    """It is larger than what is fetched otherwise; the record behind it is not read."""
    large = record(topic, 3, 5 * MIB)
    for one in (record(topic, 0), large, record(topic, 6)):
        await sink.send([one])
    found = await reader.read(WantedRecord(topic, 0, 1))
    assert found is not None
    assert found.value == large.value


async def test_a_record_that_is_gone_is_none(
    hosts: list[str], topic: str, sink: KafkaSink, reader: RecordReader
) -> None:
    """Kafka has deleted it, or never had it, or it has another key; others are still read."""
    for number in range(0, 30, 3):
        await sink.send([record(topic, number)])
    await forget_records(Kafka(hosts), topic, {0: 5})
    assert await reader.read(WantedRecord(topic, 0, 4)) is None
    assert await reader.read(WantedRecord(topic, 0, 99)) is None
    assert await reader.read(WantedRecord(topic, 0, 6, b"key3")) is None
    assert await reader.read(WantedRecord(topic, 1, 0)) is None
    found = await reader.read(WantedRecord(topic, 0, 5, b"key15"))
    assert found is not None
    assert found.offset == 5
    await forget_records(Kafka(hosts), topic, {0: 10})
    assert await reader.read(WantedRecord(topic, 0, 9)) is None


async def test_a_record_without_an_offset_is_found_by_its_key(
    topic: str, sink: KafkaSink, reader: RecordReader
) -> None:
    """The latest of those with the key, if it is among the last ones of its partition."""
    numbers = [0, 3, 0, *range(300, 300 + 3 * (LOOKED_BACK - 3), 3), 6]
    await sink.send([record(topic, number) for number in numbers])
    found = await reader.read(WantedRecord(topic, 0, None, b"key0"))
    assert found is not None
    assert found.offset == 2
    await sink.send([record(topic, number) for number in range(9, 18, 3)])
    assert await reader.read(WantedRecord(topic, 0, None, b"key0")) is None


async def test_readers_of_a_kafka_that_does_not_answer_are_told_so() -> None:
    """Reports an unavailable Kafka to all readers, also to those that wait at the end."""
    reader = RecordReader(Kafka(["127.0.0.1:9"]))
    with pytest.raises(KafkaUnavailable):
        await reader.read(WantedRecord("topic", 0, 0))
    waiting = asyncio.create_task(reader.read(WantedRecord("topic", 0, 0)))
    await asyncio.sleep(0)
    await reader.stop()
    with pytest.raises(KafkaUnavailable):
        await waiting
