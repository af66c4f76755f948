"""Reading a topic without a group: for the command line and for tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import KafkaError, RetriableError
from kafka.structs import TopicPartition

from crawlstream.bus.access.refusals import refusal_of
from crawlstream.bus.connect import Kafka, open_client
from crawlstream.bus.records import Record, name_of_topic
from crawlstream.bus.unpack import read_quickly
from crawlstream.errors import KafkaUnavailable

POLL_MS = 200
MAX_RECORDS = 1_000
_CLOSE_TIMEOUT_MS = 1_000


async def end_offsets(kafka: Kafka, topic: str) -> Mapping[int, int]:
    """Offset after the last record, by partition: "now", to be read from later.

    KafkaUnavailable if Kafka does not answer or has no such topic.
    """
    return await asyncio.to_thread(_asked, kafka, topic, _Tail.ends)


async def offsets_since(kafka: Kafka, topic: str, at_ms: int) -> Mapping[int, int]:
    """Offset of the first record with a time from ``at_ms`` on, by partition; errors as above."""
    return await asyncio.to_thread(_asked, kafka, topic, lambda tail: tail.since(at_ms))


async def topic_id_of(kafka: Kafka, topic: str) -> str:
    """Return a name for a topic that is not reused, as in a `Batch`; errors as above."""
    names: list[str] = []

    def ask(tail: _Tail) -> Mapping[int, int]:
        names.append(tail.topic_id())
        return {}

    await asyncio.to_thread(_asked, kafka, topic, ask)
    return names[0]


async def read_topic(
    kafka: Kafka,
    topic: str,
    *,
    from_beginning: bool = False,
    offsets: Mapping[int, int] | None = None,
    until: Mapping[int, int] | None = None,
    follow: bool = True,
) -> AsyncGenerator[Record, None]:
    """Records of ``topic`` as they come, partition by partition in order.

    Starts at ``offsets`` (as ``end_offsets`` gave them) or at the beginning; else at the end as
    it is at the first step. Without ``follow`` it ends where the topic ended at the first step, or
    soon after ``until``.
    KafkaUnavailable if Kafka does not answer at the first step or has no such topic; a Kafka
    that goes away later is waited for.
    """
    loop = asyncio.get_running_loop()
    # All calls use this thread: the consumer does not support more.
    thread = ThreadPoolExecutor(1, "kafka-tail")
    tail = _Tail(kafka, topic)
    try:
        begin = partial(tail.begin, from_beginning=from_beginning, offsets=offsets)
        await loop.run_in_executor(thread, begin)
        tail.end_at(until or {})
        is_more = True
        while is_more:
            for record in await loop.run_in_executor(thread, tail.read):
                yield record
            is_more = follow or not await loop.run_in_executor(thread, tail.has_ended)
    finally:
        thread.submit(tail.close)
        thread.shutdown(wait=False)


class _Tail:
    """A consumer of all partitions of one topic; blocks, so it lives on a thread of its own."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._consumer: Any = None
        self._network: Any = None
        self._ends: Mapping[TopicPartition, int] = {}

    def begin(self, *, from_beginning: bool, offsets: Mapping[int, int] | None) -> None:
        self._consumer, self._network = open_client(
            KafkaConsumer,
            **self._kafka.named("crawlstream-tail").options(),
            group_id=None,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            max_poll_records=MAX_RECORDS,
            metrics_enabled=False,
        )
        read_quickly(self._consumer)
        try:
            self._seek(from_beginning=from_beginning, offsets=offsets)
        except KafkaError as error:
            raise _unread(self._topic, error) from error

    def _seek(self, *, from_beginning: bool, offsets: Mapping[int, int] | None) -> None:
        partitions = self._network.partitions_of(self._topic)
        if not partitions:
            raise KafkaUnavailable(f"topic {self._topic} does not exist")
        keys = [TopicPartition(self._topic, partition) for partition in sorted(partitions)]
        self._consumer.assign(keys)
        self._ends = self._consumer.end_offsets(keys)
        starts = self._consumer.beginning_offsets(keys) if from_beginning else self._ends
        for key in keys:
            # A partition that was added after ``offsets`` were taken is new as a whole.
            known = starts[key] if offsets is None else offsets.get(key.partition, 0)
            self._consumer.seek(key, known)

    def ends(self) -> Mapping[int, int]:
        return {key.partition: end for key, end in self._ends.items()}

    def topic_id(self) -> str:
        return name_of_topic(self._network.cluster.topic_id(self._topic), self._topic)

    def end_at(self, until: Mapping[int, int]) -> None:
        """End earlier than the topic does."""
        self._ends = {
            key: min(end, until.get(key.partition, end)) for key, end in self._ends.items()
        }

    def since(self, at_ms: int) -> Mapping[int, int]:
        try:
            found = self._consumer.offsets_for_times(dict.fromkeys(self._ends, at_ms))
        except KafkaError as error:
            raise _unread(self._topic, error) from error
        # A partition without such a record has nothing but its end.
        return {
            key.partition: found[key].offset if found.get(key) else end
            for key, end in self._ends.items()
        }

    def read(self) -> Sequence[Record]:
        try:
            polled = self._consumer.poll(timeout_ms=POLL_MS)
        except RetriableError:
            time.sleep(POLL_MS / 1000)
            return ()
        except KafkaError as error:
            raise _unread(self._topic, error) from error
        return [record for records in polled.values() for record in records]

    def has_ended(self) -> bool:
        return all(
            (self._consumer.position(key, timeout_ms=POLL_MS) or 0) >= end
            for key, end in self._ends.items()
        )

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=_CLOSE_TIMEOUT_MS)


def _unread(topic: str, error: KafkaError) -> KafkaUnavailable:
    return refusal_of(error) or KafkaUnavailable(f"cannot read topic {topic}: {error}")


def _asked(
    kafka: Kafka, topic: str, question: Callable[[_Tail], Mapping[int, int]]
) -> Mapping[int, int]:
    tail = _Tail(kafka, topic)
    try:
        tail.begin(from_beginning=False, offsets=None)
        return question(tail)
    finally:
        tail.close()
