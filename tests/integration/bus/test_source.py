"""The source on a real Kafka: every record once a position, through rebalances and faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from crawlstream.bus import consumer_session as session_module
from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Batch, Out, ReadLimits, Record
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.source import KafkaSource
from crawlstream.bus.topics import ensure_topics
from crawlstream.errors import RedisUnavailable
from crawlstream.keys import Topics
from support.bus.pipe import LEAVES_SOCKETS, MIB, Pipe
from support.waiting import WaitUntil

pytest_plugins = ["support.bus.fixtures"]
pytestmark = LEAVES_SOCKETS

T = TypeVar("T")


async def with_admin(pipe: Pipe, do: Callable[[KafkaAdminClient], T]) -> T:
    """Do something with an admin client, on another thread."""

    def run() -> T:
        admin = KafkaAdminClient(bootstrap_servers=pipe.hosts)
        try:
            return do(admin)
        finally:
            admin.close()

    return await asyncio.to_thread(run)


async def next_batch(source: KafkaSource, partition: int | None = None) -> Batch:
    """The next batch, of one partition if it is named; those of others are passed over."""
    async with asyncio.timeout(60):
        while True:
            for batch in await source.poll(1):
                if partition in {None, batch.partition}:
                    return batch


async def test_every_record_is_read_once_in_consecutive_batches(pipe: Pipe) -> None:
    """Batches of a partition follow each other without a hole, and carry key, value and time."""
    await pipe.send(range(3000))
    before_ms = time.time() * 1000 - 60_000
    ledger = pipe.ledger
    async with pipe.source() as source:
        while len(ledger.values) < 3000:
            for batch in await source.poll(5):
                assert batch.start == ledger.positions.get(batch.partition, 0)
                assert all(record.timestamp_ms > before_ms for record in batch.records)
                assert all(record.key == record.value for record in batch.records)
                ledger.apply(source, batch)
    ledger.assert_each_once()
    assert len({topic_id for topic_id, _ in ledger.located}) == 1
    assert sorted(partition for _, partition in ledger.located) == [0, 1, 2, 3]


async def test_reading_begins_where_it_is_told_not_where_kafka_remembers(
    pipe: Pipe, wait_until: WaitUntil
) -> None:
    """The group's commit is for lag tools; the position of the caller counts."""
    await pipe.send_to_one(100)
    async with pipe.following() as source:
        await wait_until(lambda: len(pipe.ledger.values) == 100)
        (partition,) = pipe.ledger.positions
        await source.commit(pipe.ledger.positions)
    offsets = await with_admin(pipe, lambda admin: admin.list_group_offsets([pipe.topic]))
    committed = {key.partition: value.offset for key, value in offsets[pipe.topic].items()}
    assert committed[partition] == 100
    pipe.ledger.positions[partition] = 40
    async with pipe.source() as source:
        batch = await next_batch(source, partition)
    assert (batch.start, batch.next, len(batch.records)) == (40, 100, 60)


def test_a_batch_is_cut_without_losing_an_offset() -> None:
    """Chunks cover holes before, between and after their records."""
    records = [Record("t", 0, offset, 0, None, b"") for offset in (12, 13, 17, 18, 21)]
    chunks = list(Batch("id", 0, 10, 25, records).chunks(2))
    assert [(chunk.start, chunk.next) for chunk in chunks] == [(10, 14), (14, 19), (19, 25)]
    assert [r.offset for chunk in chunks for r in chunk.records] == [12, 13, 17, 18, 21]


def test_a_batch_is_cut_by_its_bytes_too() -> None:
    """Records heavier than allowed are alone; nothing is left out, and holes are covered."""
    sizes = {3: 40, 4: 60, 7: 1, 8: 500, 9: 99, 12: 0}
    records = [Record("t", 0, offset, 0, None, b"x" * size) for offset, size in sizes.items()]
    chunks = list(Batch("id", 0, 2, 20, records).chunks(5, 100))
    assert [[r.offset for r in chunk.records] for chunk in chunks] == [[3, 4], [7], [8], [9, 12]]
    assert [(chunk.start, chunk.next) for chunk in chunks] == [(2, 5), (5, 8), (8, 9), (9, 20)]
    nothing = Record("t", 0, 1, 0, None, None)
    assert len(list(Batch("id", 0, 1, 2, [nothing]).chunks(5, 100))) == 1


async def test_after_a_seek_nothing_older_is_returned(pipe: Pipe) -> None:
    """Batches that were on their way are dropped; the next one begins at the new position."""
    await pipe.send_to_one(8000)
    async with pipe.source() as source:
        (first,) = await source.poll(10)
        for offset in (7000, 5, 0):
            source.seek(first.partition, offset)
            assert (await next_batch(source, first.partition)).start == offset


async def test_a_partition_that_cannot_go_on_does_not_hold_up_the_others(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is neither fetched nor returned until it is known where it goes on; nothing is missed."""
    fetched: list[int] = []
    take = session_module.ConsumerSession._take

    def counting(session: session_module.ConsumerSession, partition: int, records: Any) -> Batch:
        fetched.append(partition)
        return take(session, partition, records)

    monkeypatch.setattr(session_module.ConsumerSession, "_take", counting)
    away = {2: False}

    async def locate(topic_id: str, partition: int) -> int | None:
        if away.get(partition):
            raise RedisUnavailable("gone")
        return await pipe.ledger.locate(topic_id, partition)

    async def send(numbers: range) -> None:
        await pipe.sink.send([Out(pipe.topic, b"%d" % n, partition=n % 4) for n in numbers])

    await send(range(400))
    async with pipe.source(locate) as source:
        await pipe.apply_until(source, 400)
        away[2] = True
        source.locate(pipe.ledger.located[0][0], 2)
        # A fetch in progress may still bring something, which is dropped.
        await asyncio.sleep(0.5)
        fetched.clear()
        await send(range(400, 800))
        await pipe.apply_until(source, 700)
        assert (pipe.ledger.positions[2], fetched.count(2)) == (100, 0)
        away[2] = False
        await pipe.apply_until(source, 800)
    pipe.ledger.assert_each_once()


async def test_a_paused_source_gives_nothing_and_keeps_its_partitions(
    pipe: Pipe, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pausing for longer than the group bears silence costs no rebalance, and misses nothing."""
    monkeypatch.setattr(session_module, "MAX_POLL_INTERVAL_MS", 4000)
    await pipe.send(range(100))
    async with pipe.following() as source:
        await wait_until(lambda: len(pipe.ledger.values) == 100)
        source.pause()
        # Records being fetched at this moment may still arrive.
        await asyncio.sleep(0.3)
        await pipe.send(range(100, 200))
        await asyncio.sleep(5.5)
        assert len(pipe.ledger.values) == 100
        source.resume()
        await wait_until(lambda: len(pipe.ledger.values) == 200)
    pipe.ledger.assert_each_once()
    assert len(pipe.ledger.located) == 4


async def test_a_slow_caller_is_not_flooded(pipe: Pipe, wait_until: WaitUntil) -> None:
    """Queues only a few polls for a slow caller, and delivers all records in the end."""
    await pipe.send(range(9000))
    async with pipe.source() as source:
        await wait_until(lambda: len(source._polls) == ReadLimits().polls)
        await asyncio.sleep(0.5)
        assert len(source._polls) == ReadLimits().polls
        await pipe.apply_until(source, 9000)
    pipe.ledger.assert_each_once()


def _is_at_least(things: Sequence[object], count: int) -> bool:
    return len(things) >= count


async def test_members_that_come_and_go_lose_and_repeat_nothing(
    pipe: Pipe, wait_until: WaitUntil
) -> None:
    """Partitions wander between two sources while records flow; each takes effect once."""
    sent = 0

    async def feed(until: asyncio.Event) -> None:
        nonlocal sent
        while not until.is_set():
            await pipe.send(range(sent, sent + 20))
            sent += 20

    async def wander(until: asyncio.Event) -> None:
        for _ in range(2):
            located = len(pipe.ledger.located)
            all_again = partial(_is_at_least, pipe.ledger.located, located + 4)
            async with pipe.following():
                await wait_until(all_again)
        until.set()

    async with pipe.following():
        until = asyncio.Event()
        await asyncio.gather(feed(until), wander(until))
        await wait_until(lambda: len(pipe.ledger.values) >= sent)
    pipe.ledger.assert_each_once()
    assert sorted(int(value or b"") for value in pipe.ledger.values) == list(range(sent))


async def test_a_locate_that_fails_is_asked_again(pipe: Pipe) -> None:
    """The partition stands still until its position is known."""
    failures = iter([RuntimeError("Redis is away"), RuntimeError("still")])

    async def locate(topic_id: str, partition: int) -> int | None:
        for error in failures:
            raise error
        return await pipe.ledger.locate(topic_id, partition)

    await pipe.send(range(100))
    async with pipe.source(locate) as source:
        await pipe.apply_until(source, 100)
    pipe.ledger.assert_each_once()


async def test_a_position_beyond_the_end_is_told_and_waits_for_a_decision(
    pipe: Pipe, wait_until: WaitUntil
) -> None:
    """Skips nothing silently: the partition waits until ``seek`` says where to continue."""
    await pipe.send_to_one(10)
    pipe.ledger.positions = dict.fromkeys(range(4), 1000)
    async with pipe.source(decide=pipe.ledger.stay) as source:
        await wait_until(lambda: len(pipe.ledger.astray) == 4)
        (where,) = [w for w in pipe.ledger.astray if w.log_end == 10]
        assert (where.position, where.log_start) == (1000, 0)
        assert await source.poll(0.3) == ()
        assert source.paused == {w.partition: w for w in pipe.ledger.astray}
        source.seek(where.partition, 4)
        assert set(source.paused) == {0, 1, 2, 3} - {where.partition}
        batch = await next_batch(source, where.partition)
    assert (batch.start, batch.next) == (4, 10)


async def test_records_deleted_under_the_reader_are_told(pipe: Pipe) -> None:
    """Retention overtakes a paused source: the gap is reported with both ends, then read on."""
    await pipe.send_to_one(10)
    async with pipe.source() as source:
        (batch,) = await source.poll(10)
        source.pause()
        await asyncio.sleep(0.3)
        await pipe.send_to_one(20)
        key = TopicPartition(pipe.topic, batch.partition)
        await with_admin(pipe, lambda admin: admin.delete_records({key: 25}))
        source.resume()
        after = await next_batch(source, batch.partition)
    (where,) = pipe.ledger.astray
    assert (where.position, where.log_start, where.log_end) == (10, 25, 30)
    assert (after.start, after.next) == (25, 30)


async def test_what_a_client_took_back_is_not_read(pipe: Pipe) -> None:
    """Records of a transaction that was aborted are passed over, those of a committed one not."""

    def transact() -> None:
        producer = KafkaProducer(bootstrap_servers=pipe.hosts, transactional_id=pipe.topic)
        producer.init_transactions()
        for value, is_kept in ((b"back", False), (b"kept", True), (b"back too", False)):
            producer.begin_transaction()
            for _ in range(3):
                producer.send(pipe.topic, value, b"key")
            (producer.commit_transaction if is_kept else producer.abort_transaction)()
        producer.close()

    await asyncio.to_thread(transact)
    await pipe.sink.send([Out(pipe.topic, b"last", b"key")])
    async with pipe.source() as source:
        await pipe.apply_until(source, 4)
    assert pipe.ledger.values == [b"kept"] * 3 + [b"last"]


async def test_a_topic_made_anew_is_located_under_its_new_identity(
    pipe: Pipe, fresh_name: str, wait_until: WaitUntil
) -> None:
    """A topic of that name made again is another: a new UUID is fetched, and comes with batches."""
    await pipe.send(range(50))
    async with pipe.source() as source:
        old = (await next_batch(source)).topic_id
        await with_admin(pipe, lambda admin: admin.delete_topics([pipe.topic]))
        kafka = Kafka(pipe.hosts, shape=TopicShape(partitions=4, max_record_bytes=MIB))

        async def located() -> object:
            # A broker may still list the deleted topic at the first of these calls.
            await ensure_topics(kafka, Topics(fresh_name))
            return {i for i, _ in pipe.ledger.located} - {old}

        await wait_until(located, timeout_s=20, every_s=0.5)
        await pipe.send(range(1))
        async with asyncio.timeout(10):
            while not (new := [b for b in await source.poll(1) if b.topic_id != old]):
                pass
    assert [record.value for record in new[0].records] == [b"0"]
    assert new[0].start == 0
