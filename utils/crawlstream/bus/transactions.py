"""Records out in transactions, and what a compacted topic holds once they have ended.

Of the producers that have one name, only the last that has begun writes; the one before is fenced.
A transaction that it had left open is aborted by then. Calls block; one thread at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import (
    AuthorizationError,
    InvalidProducerEpochError,
    KafkaError,
    ProducerFencedError,
    UnsupportedVersionError,
)
from kafka.partitioner import StickyPartitioner
from kafka.structs import TopicPartition

from crawlstream.bus.codecs import compress_lightly
from crawlstream.bus.connect import Kafka, open_client
from crawlstream.bus.delivery import TOO_LARGE
from crawlstream.bus.records import Out, RecordTooLarge
from crawlstream.bus.shape import ENVELOPE_BYTES
from crawlstream.bus.unpack import read_quickly
from crawlstream.bus.writer import BATCH_BYTES, LINGER_MS, Network
from crawlstream.errors import ConfigError, KafkaUnavailable

TRANSACTION_TIMEOUT_MS = 10_000
"""How long readers wait for a process that has died in the midst of a transaction."""
CALL_S = 12.0
"""For the verdict on a transaction; after that the broker has aborted it, or soon will."""
BEGIN_MS = 15_000
"""For a producer to begin: the transaction of the one before may have to time out."""
_POLL_MS = 200
_CLOSE_S = 2.0
_FENCED = (ProducerFencedError, InvalidProducerEpochError)
_CLIENT_ID = "crawlstream-transactions"


class Transactions:
    """The only producer of its name; or, without a name, a producer without transactions."""

    def __init__(self, kafka: Kafka, name: str | None) -> None:
        """Begin, and fence the one before. KafkaUnavailable, ConfigError."""
        self._name = name
        self._producer = _connect(kafka, name)
        try:
            if name is not None:
                self._producer.init_transactions()
        except (AuthorizationError, UnsupportedVersionError) as error:
            self.close()
            raise ConfigError(
                f"Kafka allows no transactions ({error}): allow the transactional id {name}, and"
                " all that begin like it, or set exactly_once = false"
            ) from error
        except KafkaError as error:
            self.close()
            raise KafkaUnavailable(f"Kafka does not begin transactions: {error}") from error

    def write(self, records: Sequence[Out]) -> bool:
        """Write all records, or none; False if another one has our name by now.

        Not to be used again after an error. KafkaUnavailable: perhaps they are written all the
        same. RecordTooLarge: none is.
        """
        deadline = time.monotonic() + CALL_S
        try:
            if self._name is not None:
                self._producer.begin_transaction()
            self._send(records, deadline)
            if self._name is not None:
                verdict = self._producer._transaction_manager.begin_commit()  # noqa: SLF001  in time
                self._producer._sender.wakeup()  # noqa: SLF001
                if not verdict.wait(timeout_ms=max(deadline - time.monotonic(), 0.1) * 1000):
                    raise KafkaUnavailable("Kafka does not end a transaction")
        except _FENCED:
            return False
        except KafkaError as error:
            raise KafkaUnavailable(f"Kafka did not take a transaction: {error}") from error
        return True

    def close(self) -> None:
        """Let go of it, in the background; what is open is aborted."""
        threading.Thread(target=self._close, name="kafka-transactions-close", daemon=True).start()

    def _send(self, records: Sequence[Out], deadline: float) -> None:
        try:
            sent = [
                self._producer.send(one.topic, None if one.deletes else one.value, one.key)
                for one in records
            ]
            for future in sent:
                future.get(timeout=max(deadline - time.monotonic(), 0.1))
        except TOO_LARGE as error:
            raise RecordTooLarge(f"Kafka rejected a record for its size: {error}", ()) from error

    def _close(self) -> None:
        sender = self._producer._sender  # noqa: SLF001  close() waits for what never ends
        sender.force_close()
        sender.join(_CLOSE_S)
        self._producer.close(timeout=0)


def _connect(kafka: Kafka, name: str | None) -> Any:
    largest = kafka.shape.max_record_bytes
    compress_lightly()
    of_a_name = {"transactional_id": name, "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS}
    producer, _ = open_client(
        KafkaProducer,
        network=Network,
        **kafka.named(_CLIENT_ID).options(),
        **(of_a_name if name is not None else {}),
        acks="all",
        enable_idempotence=True,
        compression_type=None if kafka.codec == "none" else kafka.codec,
        linger_ms=LINGER_MS,
        batch_size=min(BATCH_BYTES, largest),
        max_request_size=largest + ENVELOPE_BYTES // 2,
        delivery_timeout_ms=int(CALL_S * 1000),
        max_block_ms=BEGIN_MS,
        partitioner=StickyPartitioner(),
        metrics_enabled=False,
    )
    return producer


def read_table(kafka: Kafka, topic: str, prefix: bytes) -> Mapping[bytes, bytes]:
    """The latest committed value of each key that begins so, as compaction would leave them.

    Transactions that are open at the call are waited for. KafkaUnavailable.
    """
    try:
        ends = _ends(kafka, topic)
        return _read(kafka, ends, prefix)
    except KafkaError as error:
        raise KafkaUnavailable(f"cannot read topic {topic}: {error}") from error


def _ends(kafka: Kafka, topic: str) -> Mapping[TopicPartition, int]:
    """Where the topic ends, open transactions included."""
    consumer = _consumer(kafka, "read_uncommitted")
    try:
        numbers = consumer.partitions_for_topic(topic)
        if not numbers:
            raise KafkaUnavailable(f"topic {topic} does not exist")
        ends: Mapping[TopicPartition, int] = consumer.end_offsets(
            [TopicPartition(topic, number) for number in numbers]
        )
        return ends
    finally:
        consumer.close(autocommit=False, timeout_ms=1_000)


def _read(kafka: Kafka, ends: Mapping[TopicPartition, int], prefix: bytes) -> dict[bytes, bytes]:
    consumer, found = _consumer(kafka, "read_committed"), {}
    read_quickly(consumer)
    deadline = time.monotonic() + TRANSACTION_TIMEOUT_MS / 1000 + BEGIN_MS / 1000
    try:
        consumer.assign(list(ends))
        consumer.seek_to_beginning(*ends)
        while any((consumer.position(key) or 0) < end for key, end in ends.items()):
            if time.monotonic() > deadline:
                raise KafkaUnavailable("an open transaction hides the end of a topic")
            for records in consumer.poll(timeout_ms=_POLL_MS).values():
                for record in records:
                    if record.key is not None and record.key.startswith(prefix):
                        found[record.key] = record.value
    finally:
        consumer.close(autocommit=False, timeout_ms=1_000)
    return {key: value for key, value in found.items() if value is not None}


def _consumer(kafka: Kafka, isolation: str) -> Any:
    consumer, _ = open_client(
        KafkaConsumer,
        **kafka.named(_CLIENT_ID).options(),
        group_id=None,
        isolation_level=isolation,
        auto_offset_reset="earliest",
        allow_auto_create_topics=False,
        metrics_enabled=False,
    )
    return consumer
