"""The source when Kafka, or its client library, fails: it reads on, and loses nothing."""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
import time
from collections.abc import Sequence

import pytest
from kafka.cluster import ClusterMetadata
from kafka.coordinator.base import MemberState
from kafka.errors import CorruptRecordError

from crawlstream.bus import consumer_session as session_module
from crawlstream.bus import reader as reader_module
from crawlstream.bus.connect import Kafka, admin
from crawlstream.bus.consumer_session import ConsumerSession
from crawlstream.bus.records import Batch, NotAcknowledged, Out
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.source import STOP_TIMEOUT_S
from crawlstream.bus.topics import create_missing
from crawlstream_chaos.processes import RunningServer
from support.bus.pipe import LEAVES_SOCKETS, Pipe
from support.session.own import own_kafka_server
from support.waiting import WaitUntil

__all__ = ["own_kafka_server"]

pytest_plugins = ["support.bus.fixtures"]

pytestmark = LEAVES_SOCKETS


async def assert_begins_anew(pipe: Pipe, wait_until: WaitUntil) -> None:
    """All four partitions are located a second time, and every record is read once."""
    await pipe.send(range(100))
    async with pipe.following():
        await wait_until(lambda: len(pipe.ledger.located) == 8)
        await pipe.send(range(100, 200))
        await wait_until(lambda: len(pipe.ledger.values) == 200)
    pipe.ledger.assert_each_once()


async def test_a_consumer_that_fails_is_replaced(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    """Replaces a consumer at once after an error that kafka-python does not survive."""
    errors = iter([CorruptRecordError("bad checksum")])
    read = ConsumerSession.read

    def fail_once(session: ConsumerSession, timeout_ms: int) -> Sequence[tuple[int, Batch]]:
        if pipe.ledger.values:
            for error in errors:
                raise error
        return read(session, timeout_ms)

    monkeypatch.setattr(ConsumerSession, "read", fail_once)
    await assert_begins_anew(pipe, wait_until)


async def test_a_consumer_that_is_deaf_is_replaced(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    """A consumer whose metadata task died in its first update does not wait without end."""
    monkeypatch.setattr(session_module, "DEAF_AFTER_S", 0.5)
    monkeypatch.setattr(session_module, "METADATA_AGE_MS", 500)
    errors = iter([RuntimeError("Set changed size during iteration")])
    update, subscribe = ClusterMetadata.update_metadata, ConsumerSession.subscribe
    sessions: list[ConsumerSession] = []

    def note_session(session: ConsumerSession) -> None:
        sessions.append(session)
        subscribe(session)

    def fail_once(cluster: ClusterMetadata, metadata: object) -> None:
        update(cluster, metadata)
        if cluster.partitions_for_topic(pipe.topic):
            for error in errors:
                raise error

    await pipe.send(range(10))
    monkeypatch.setattr(ClusterMetadata, "update_metadata", fail_once)
    monkeypatch.setattr(ConsumerSession, "subscribe", note_session)
    async with pipe.following():
        await wait_until(lambda: len(sessions) == 2)
        await pipe.send(range(10, 20))
        await wait_until(lambda: len(pipe.ledger.values) == 20)
    pipe.ledger.assert_each_once()


async def test_a_join_that_was_begun_is_brought_to_its_end(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    """A member whose client has forgotten that it was joining joins again, and reads on."""
    begun = iter([MemberState.REBALANCING])
    read = ConsumerSession.read

    def forget_once(session: ConsumerSession, timeout_ms: int) -> Sequence[tuple[int, Batch]]:
        coordinator = session._consumer._coordinator
        if pipe.ledger.values:
            for state in begun:
                coordinator.state, coordinator.rejoin_needed = state, False
        return read(session, timeout_ms)

    monkeypatch.setattr(ConsumerSession, "read", forget_once)
    await assert_begins_anew(pipe, wait_until)


async def test_a_killed_broker_costs_no_acknowledged_record(
    pipe: Pipe, kafka_server: RunningServer, wait_until: WaitUntil
) -> None:
    """Killed amid sending, Kafka comes back: lists are acknowledged or repeated, all are read."""
    acknowledged: list[bytes] = []
    stop = asyncio.Event()

    async def feed(worker: int) -> None:
        for n in itertools.count():
            values = [b"%d-%d-%d" % (worker, n, i) for i in range(10)]
            left: Sequence[Out] = [Out(pipe.topic, value, value) for value in values]
            while left:
                try:
                    await pipe.sink.send(left)
                    left = ()
                except NotAcknowledged as lost:
                    left = lost.records
            acknowledged.extend(values)
            if stop.is_set():
                return

    async with pipe.following():
        feeding = [asyncio.create_task(feed(worker)) for worker in range(4)]
        await wait_until(lambda: len(acknowledged) > 500)
        kafka_server.kill()
        # Holds up the loop: a server must be started by the thread whose death is its own.
        kafka_server.start()
        at_return = len(acknowledged)
        await wait_until(lambda: len(acknowledged) > at_return + 500, timeout_s=90)
        stop.set()
        await asyncio.gather(*feeding)
        # A rebalance may wait half a minute for a member that the broker's death has renamed.
        await wait_until(lambda: set(acknowledged) <= set(pipe.ledger.values), timeout_s=90)
    pipe.ledger.assert_each_once()


async def test_a_broker_that_is_away_is_told(
    pipe: Pipe,
    kafka_server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    wait_until: WaitUntil,
) -> None:
    """A source that waits for Kafka says so while it does, though nothing has failed."""
    monkeypatch.setattr(reader_module, "SILENT_AFTER_S", 2.0)
    async with pipe.following() as source:
        await pipe.send(range(100))
        await wait_until(lambda: len(pipe.ledger.values) == 100)
        assert not source.is_waiting
        kafka_server.kill()
        try:
            await wait_until(lambda: source.is_waiting, timeout_s=20)
        finally:
            kafka_server.start()
        await wait_until(lambda: not source.is_waiting, timeout_s=60)


async def test_a_topic_that_was_deleted_is_named(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    """Source and sink say which topic Kafka has not, and what to do; made again, all goes on."""
    monkeypatch.setattr(reader_module, "SILENT_AFTER_S", 1.0)
    monkeypatch.setattr(session_module, "METADATA_AGE_MS", 1_000)
    async with pipe.following() as source:
        await pipe.send(range(10))
        await wait_until(lambda: len(pipe.ledger.values) == 10)
        assert not source.obstacle
        await asyncio.to_thread(_delete, pipe)
        await wait_until(lambda: f"no topic {pipe.topic}: restart" in source.obstacle)
        async with KafkaSink(Kafka(pipe.hosts)) as sink:
            with pytest.raises(NotAcknowledged, match=f"Kafka has no topic {pipe.topic}: restart"):
                await sink.send([Out(pipe.topic, b"x")])
        shape = TopicShape(partitions=4)
        kafka = Kafka(pipe.hosts, shape=shape)
        options = shape.options(is_incoming=True)
        await asyncio.to_thread(create_missing, kafka, {pipe.topic: options})
        await wait_until(lambda: not source.obstacle)


def _delete(pipe: Pipe) -> None:
    with admin(Kafka(pipe.hosts), "test") as client:
        client.delete_topics([pipe.topic])


async def test_stopping_is_quick_even_while_the_broker_is_frozen(
    pipe: Pipe, kafka_server: RunningServer, wait_until: WaitUntil
) -> None:
    """A stop waits three seconds at most, and leaves no thread behind once Kafka answers."""
    source = pipe.source()
    await source.start()
    await wait_until(lambda: len(pipe.ledger.located) == 4)
    kafka_server.signal(signal.SIGSTOP)
    try:
        since = time.monotonic()
        await source.stop()
        assert time.monotonic() - since < STOP_TIMEOUT_S + 0.5
    finally:
        kafka_server.signal(signal.SIGCONT)
    await wait_until(lambda: not any(t.name == "kafka-reader" for t in threading.enumerate()))
