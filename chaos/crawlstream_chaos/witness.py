"""A client as any user would write it: plain kafka-python and JSON, nothing of the cluster's.

It reads every output topic from the beginning in a thread, so that others ask what has come
instead of polling Kafka themselves.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, UnknownTopicOrPartitionError

from crawlstream.tasks import wait_until

OUTPUTS = ("crawled_firehose", "outbound_firehose", "events", "rejected", "undelivered")
_TIMEOUT_MS = 60_000
ENDINGS = frozenset(("crawl_finished", "crawl_stopped", "crawl_expired"))


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A record: its topic without the prefix, its key, its JSON."""

    topic: str
    key: str | None
    value: dict[str, Any]


class Witness:
    """Feeds requests and remembers everything that comes out of one cluster."""

    def __init__(self, hosts: str, prefix: str) -> None:
        self._hosts = hosts
        self._prefix = prefix
        self._seen: list[SeenRecord] = []
        self._closing = threading.Event()
        self._producer = self._new_producer()
        self._thread = threading.Thread(target=self._read, name="witness", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and the connections."""
        self._closing.set()
        self._thread.join(10)
        self._producer.close(5)

    def renew_producer(self) -> None:
        """A log that has lost what a producer wrote takes nothing more from it."""
        self._producer.close(5)
        self._producer = self._new_producer()

    def _new_producer(self) -> KafkaProducer:
        return KafkaProducer(
            bootstrap_servers=self._hosts,
            max_request_size=16 * 1024 * 1024,
            # The broker is killed in some tests; the client sits it out like any other.
            delivery_timeout_ms=60_000,
            request_timeout_ms=5_000,
        )

    def feed(self, *requests: Mapping[str, Any]) -> None:
        """Feed requests and wait until Kafka has them."""
        self.feed_raw(*(json.dumps(request).encode() for request in requests))

    def feed_raw(self, *values: bytes) -> None:
        """Feed any bytes at all."""
        topic = f"{self._prefix}.incoming"
        for sent in [self._producer.send(topic, value) for value in values]:
            sent.get(60)

    def records(self, topic: str, **fields: object) -> list[SeenRecord]:
        """Return the records that have come on a topic so far, with these fields."""
        return [
            seen
            for seen in tuple(self._seen)
            if seen.topic == topic and fields.items() <= seen.value.items()
        ]

    def results(self, crawlid: str) -> list[dict[str, Any]]:
        """Results of a crawl so far, repeats included."""
        return [seen.value for seen in self.records("crawled_firehose", crawlid=crawlid)]

    def events(self, crawlid: str, *names: str) -> list[dict[str, Any]]:
        """Events of a crawl so far, repeats of the same event left out."""
        events = [seen.value for seen in self.records("events", crawlid=crawlid)]
        wanted = [event for event in events if not names or event["event"] in names]
        return list({_identity(event): event for event in wanted}.values())

    def ending(self, crawlid: str) -> dict[str, Any] | None:
        """The event that ended a crawl, if it has come."""
        endings = self.events(crawlid, *ENDINGS)
        return endings[0] if endings else None

    async def ended(self, crawlid: str, *, timeout_s: float = 90) -> dict[str, Any]:
        """Wait for the event that ends a crawl, and for the results that came before it.

        Partitions are read in no order: the event may be here long before them. Results that are
        still missing after half a minute are for the test to miss.
        """

        def ending() -> list[dict[str, Any]]:
            return [event] if (event := self.ending(crawlid)) else []

        event: dict[str, Any] = (await wait_until(ending, timeout_s=timeout_s))[0]

        def is_complete() -> bool:
            ids = {result["id"] for result in self.results(crawlid)}
            return len(ids) >= int(event["counters"]["done"])

        with suppress(TimeoutError):
            await wait_until(is_complete, timeout_s=30)
        return event

    async def answered(self, uuid_: str, *, timeout_s: float = 60) -> dict[str, Any]:
        """Wait for the answer to a request."""

        def answer() -> list[dict[str, Any]]:
            return [reply] if (reply := self.reply(uuid_)) else []

        return (await wait_until(answer, timeout_s=timeout_s))[0]

    def reply(self, uuid_: str) -> dict[str, Any] | None:
        """The answer to a request, if it has come."""
        replies = self.records("outbound_firehose", uuid=uuid_)
        return replies[0].value if replies else None

    def feed_request(self, **request: object) -> str:
        """Feed a request under a new uuid, and return that."""
        name = str(uuid.uuid4())
        self.feed({"uuid": name, **request})
        return name

    def _read(self) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=self._hosts, enable_auto_commit=False, request_timeout_ms=10_000
        )
        try:
            self._assign(consumer)
            while not self._closing.is_set():
                try:
                    polled = consumer.poll(timeout_ms=100)
                except KafkaError:
                    self._closing.wait(0.2)
                    continue
                for records in polled.values():
                    self._note(records)
        finally:
            consumer.close()

    def _assign(self, consumer: KafkaConsumer) -> None:
        """All partitions of all output topics, from the beginning."""
        partitions = [
            TopicPartition(topic, number)
            for topic in (f"{self._prefix}.{name}" for name in OUTPUTS)
            for number in partitions_of(consumer, topic)
        ]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)

    def _note(self, records: Iterable[Any]) -> None:
        for record in records:
            self._seen.append(
                SeenRecord(
                    record.topic.removeprefix(self._prefix + "."),
                    record.key.decode() if record.key else None,
                    json.loads(record.value),
                )
            )


def partitions_of(consumer: KafkaConsumer, topic: str) -> Iterable[int]:
    """Return the partitions of a topic; the consumer's own method requests those of all topics.

    The Kafka of a test run has thousands.
    """
    requested = consumer._cluster.add_topic(topic)  # noqa: SLF001  nothing public asks for one
    with suppress(UnknownTopicOrPartitionError):
        consumer._net.run(consumer._manager.wait_for, requested, _TIMEOUT_MS)  # noqa: SLF001
    return consumer._cluster.partitions_for_topic(topic) or ()  # noqa: SLF001


def _identity(event: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the fields in which two event records are equal if the event is."""
    return event["event"], event.get("run"), event.get("id"), event.get("at")
