"""Records out in transactions.

Of the producers that have one name, only the last that has begun writes; the one before is fenced.
A transaction that it had left open is aborted by then. Calls block; one thread at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from kafka import KafkaProducer
from kafka.errors import (
    AuthorizationError,
    InvalidProducerEpochError,
    KafkaError,
    ProducerFencedError,
    UnsupportedVersionError,
)
from kafka.partitioner import StickyPartitioner

from crawlstream.bus.codecs import compress_lightly
from crawlstream.bus.connect import Kafka, open_client
from crawlstream.bus.delivery import TOO_LARGE
from crawlstream.bus.records import Out, RecordTooLarge
from crawlstream.bus.shape import ENVELOPE_BYTES
from crawlstream.bus.writer import BATCH_BYTES, LINGER_MS, ProducerNetwork
from crawlstream.errors import ConfigError, KafkaUnavailable

TRANSACTION_TIMEOUT_MS = 10_000
"""Time that readers wait for a process that has died during a transaction."""
CALL_S = 12.0
"""Timeout of a transaction; after it the broker has aborted it, or soon will."""
BEGIN_MS = 15_000
"""Timeout of a producer's start: its predecessor's transaction may have to time out."""
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
        """Write all records, or none; False if another producer has taken over the name.

        Not usable after an error. KafkaUnavailable: the records may have been written all the same.
        RecordTooLarge: none is; it names the records that Kafka has refused by then.
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
        sent: list[Any] = []
        problems: dict[int, Exception] = {}
        ended: KafkaError | None = None
        for one in records:
            try:
                sent.append(self._producer.send(one.topic, _value_of(one), one.key))
            except KafkaError as error:  # Kafka has refused an earlier record.
                ended = error
                break
        for position, future in enumerate(sent):
            try:
                future.get(timeout=max(deadline - time.monotonic(), 0.1))
            except KafkaError as error:
                problems[position] = error
        if ended is not None:
            problems[len(sent)] = ended
        large = [position for position, why in problems.items() if isinstance(why, TOO_LARGE)]
        if large:
            raise RecordTooLarge(
                f"Kafka rejected a record of topic {records[large[0]].topic} because of its size:"
                f" {problems[large[0]]}",
                [records[position] for position in large],
            )
        for problem in problems.values():
            raise problem

    def _close(self) -> None:
        sender = self._producer._sender  # noqa: SLF001  close() waits for what never ends
        sender.force_close()
        sender.join(_CLOSE_S)
        self._producer.close(timeout=0)


def _value_of(record: Out) -> bytes | None:
    return None if record.deletes else record.value


def _connect(kafka: Kafka, name: str | None) -> Any:
    largest = kafka.shape.max_record_bytes
    compress_lightly()
    of_a_name = {"transactional_id": name, "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS}
    producer, _ = open_client(
        KafkaProducer,
        network=ProducerNetwork,
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
