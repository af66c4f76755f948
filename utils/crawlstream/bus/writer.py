"""The thread that owns the producer; nothing else may touch it, for its ``send`` can block."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any

import structlog
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError
from kafka.partitioner import StickyPartitioner

from crawlstream.bus.codecs import compress_lightly
from crawlstream.bus.connect import (
    REQUEST_TIMEOUT_MS,
    Kafka,
    Network,
    NoTopic,
    is_missing,
    open_client,
)
from crawlstream.bus.delivery import Delivery
from crawlstream.bus.records import name_of_topic
from crawlstream.bus.shape import ENVELOPE_BYTES
from crawlstream.errors import KafkaRefused, KafkaUnavailable
from crawlstream.retry import Backoff

DELIVERY_TIMEOUT_S = 15.0
"""From the hand-over to the producer to its verdict; longer than a killed broker takes to return,
so that the producer's own repetition, which Kafka recognises, is what mostly happens."""

QUEUE_TIMEOUT_S = 4.0
"""A list that could not even be handed over for this long is given back."""

LINGER_MS = 2
"""How long a record waits for others to share a request with: those of its own list above all."""

BATCH_BYTES = 768 * 1024
"""Maximum size of a request before compression, unless it is a single larger record.

Every topic with Kafka's default settings accepts it.
"""

OWN_BATCH_BYTES = 3 * 1024 * 1024
"""Maximum for topics created by crawlstream, which accept records of 8 MiB: results of pages that
arrive within the linger time. Each request costs CPU time in Kafka and both threads here. For a
topic that accepts less they are halved."""

_LEAST_DELAY_MS = 20.0
"""While a connection is being made; that it is made wakes the producer earlier."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0

log = structlog.get_logger()


class ProducerNetwork(Network):
    """A network client without the producer's busy loop while its broker is away."""

    def connection_delay(self, node_id: Any) -> float:
        """Milliseconds, which is what the producer takes it for; the original answers seconds."""
        seconds: float = super().connection_delay(node_id)
        return max(_LEAST_DELAY_MS, 1_000 * seconds)


class Writer(threading.Thread):
    """Hands lists to a producer, one after the other, and replaces a producer that has failed.

    ``topics`` are those that it is about to write to.
    ``on_ready`` is called once, on this thread: with None when Kafka has answered for the first
    time, or with what it refuses; then the thread ends. A later refusal is waited for.
    Larger records than ``kafka.shape`` allows (before compression) are refused here.
    """

    def __init__(
        self,
        kafka: Kafka,
        *,
        on_ready: Callable[[KafkaRefused | None], object],
        topics: Collection[str] = (),
    ) -> None:
        super().__init__(name="kafka-writer", daemon=True)
        self._kafka = kafka
        self._on_ready = on_ready
        self._topics = topics
        self._inbox: SimpleQueue[Sequence[Delivery] | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._producer: Any = None
        self._network: Any = None
        self._failed: Any = None
        self._why_not = KafkaUnavailable("Kafka does not answer")

    def submit(self, deliveries: Sequence[Delivery]) -> None:
        """Take lists to be written; from any thread, never blocks."""
        for delivery in deliveries:
            delivery.since = time.monotonic()
        self._inbox.put(deliveries)

    def finish(self) -> None:
        """End the thread after what has been submitted; ``join`` waits for it."""
        self._stopping.set()
        self._inbox.put(None)

    def run(self) -> None:
        """Connect, then write list by list until told to finish."""
        try:
            is_connected = self._connect_until(None)
        except KafkaRefused as error:
            self._on_ready(error)
            return
        if is_connected:
            self._on_ready(None)
        while (deliveries := self._inbox.get()) is not None:
            for delivery in deliveries:
                self._write(delivery)
        if self._producer is not None:
            _close(self._producer, patience_s=DELIVERY_TIMEOUT_S + 1)

    def topic_id(self, topic: str) -> str:
        """Return the UUID of a topic to which a record was written."""
        return name_of_topic(self._network.cluster.topic_id(topic), topic)

    def distrust(self) -> None:
        """Replace the producer before the next list: it has not kept to its own timeout."""
        self._failed = self._producer

    def _write(self, delivery: Delivery) -> None:
        if not self._connect_until(delivery.since + QUEUE_TIMEOUT_S):
            delivery.lost_from(0, self._why_not)
            return
        producer = self._producer
        for position, record in enumerate(delivery.records):
            if delivery.since + QUEUE_TIMEOUT_S < time.monotonic():
                delivery.lost_from(position, KafkaUnavailable("Kafka did not acknowledge in time"))
                return
            value, headers = None if record.deletes else record.value, list(record.headers)
            if (make := self._kafka.headers.get(record.topic)) is not None:
                headers += make(record.key, record.value)
            try:
                future = producer.send(
                    record.topic, value, record.key, headers=headers, partition=record.partition
                )
            except KafkaTimeoutError as error:
                is_gone = is_missing(self._network, record.topic)
                why = NoTopic(record.topic) if is_gone else self._network.refusal
                delivery.lost(position, why or error)
                continue
            except Exception as error:  # noqa: BLE001  whatever it is, the list gets its verdict
                delivery.lost(position, error)
                continue
            future.add_callback(partial(delivery.acknowledged, position))
            future.add_errback(partial(self._note_loss, producer, delivery, position))

    def _note_loss(
        self, producer: KafkaProducer, delivery: Delivery, position: int, error: Exception
    ) -> None:
        """On the producer's thread: a producer that lost a record must not be used again.

        After an error of the broker it fails all records in flight with that same error; the record
        that caused it is reported first. After a timeout it may never continue.
        """
        if self._failed is producer:
            error = KafkaUnavailable(f"the producer failed for another record: {error}")
        self._failed = producer
        delivery.lost(position, error)

    def _connect_until(self, deadline: float | None) -> bool:
        """Have a producer that works; None waits until the thread is stopped, or raises.

        KafkaRefused: Kafka has never accepted us.
        """
        if self._producer is not None and self._failed is self._producer:
            log.warning("publish", outcome="producer_replaced")
            _close_in_background(self._producer)
            self._producer = None
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while self._producer is None:
            if deadline is not None and deadline < time.monotonic():
                return False
            try:
                self._producer = self._connect()
            except KafkaUnavailable as error:
                if deadline is None and isinstance(error, KafkaRefused):
                    raise
                self._why_not = error
                log.warning("publish", outcome="waiting", error=str(error))
                if self._stopping.wait(next(backoff)):
                    return False
        return True

    def _connect(self) -> Any:
        codec, largest = self._kafka.codec, self._kafka.shape.max_record_bytes
        compress_lightly()
        producer, self._network = open_client(
            KafkaProducer,
            network=ProducerNetwork,
            **self._kafka.options(),
            acks="all",
            enable_idempotence=True,
            compression_type=None if codec == "none" else codec,
            linger_ms=LINGER_MS,
            batch_size=min(OWN_BATCH_BYTES, largest),
            max_request_size=largest + ENVELOPE_BYTES // 2,
            delivery_timeout_ms=int(DELIVERY_TIMEOUT_S * 1000),
            max_block_ms=REQUEST_TIMEOUT_MS,
            partitioner=StickyPartitioner(),
            metrics_enabled=False,
        )
        for topic in self._topics:
            # Otherwise the first record of each waits 100 ms for the metadata of its topic.
            self._network.cluster.add_topic(topic)
        return producer


def _close(producer: KafkaProducer, *, patience_s: float) -> None:
    """Flush and close; what has no verdict by then is given up."""
    try:
        producer.close(timeout=patience_s)
    except KafkaTimeoutError as error:
        log.warning("publish", outcome="not_flushed", error=str(error))
        # close() leaves its thread running when records are still open.
        producer._sender.force_close()  # noqa: SLF001
        producer._sender.join(patience_s)  # noqa: SLF001
        producer.close(timeout=0)


def _close_in_background(producer: KafkaProducer) -> None:
    """Close a failed producer; its records in flight are acknowledged meanwhile, or given up."""
    threading.Thread(
        target=_close,
        args=(producer,),
        kwargs={"patience_s": REQUEST_TIMEOUT_MS / 1000},
        name="kafka-writer-close",
        daemon=True,
    ).start()
