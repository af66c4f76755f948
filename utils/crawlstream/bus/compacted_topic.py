"""Contents of a compacted topic: the latest committed value of each key."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from crawlstream.bus.access.refusals import refusal_of
from crawlstream.bus.connect import Kafka, Network, open_client
from crawlstream.bus.unpack import read_quickly
from crawlstream.errors import KafkaUnavailable

PATIENCE_S = 20.0
"""For transactions of others that are open; longer than they may be."""
_POLL_MS = 200
_CLOSE_MS = 1_000
_CLIENT_ID = "crawlstream-table"


class CompactedTopic:
    """The keys of a topic that begin alike. What was read once is not read again; calls block."""

    def __init__(self, kafka: Kafka, topic: str, prefix: bytes) -> None:
        self._kafka = kafka
        self._topic = topic
        self._prefix = prefix
        self._values: dict[bytes, bytes] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._readers: tuple[Any, Any, Network] | None = None
        """A consumer that reads committed records, a consumer that knows the end of the topic,
        and the latter's network."""

    def read(self) -> Mapping[bytes, bytes]:
        """All that was committed before the call; open transactions are waited for.

        KafkaUnavailable.
        """
        try:
            if self._readers is None:
                committed, _ = self._consumer("read_committed")
                self._readers = (committed, *self._consumer("read_uncommitted"))
            committed, uncommitted, network = self._readers
            self._read_up_to(committed, self._ends(uncommitted, network))
        except KafkaError as error:
            self.close()
            said = KafkaUnavailable(f"cannot read topic {self._topic}: {error}")
            raise refusal_of(error) or said from error
        except KafkaUnavailable:
            self.close()
            raise
        return self._values

    def close(self) -> None:
        """Let go of Kafka; what was read is kept."""
        readers, self._readers = self._readers, None
        for each in (readers or ())[:2]:
            each.close(autocommit=False, timeout_ms=_CLOSE_MS)

    def _ends(self, consumer: Any, network: Network) -> Mapping[TopicPartition, int]:
        numbers = network.partitions_of(self._topic)
        if not numbers:
            raise KafkaUnavailable(f"topic {self._topic} does not exist")
        keys = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        ends: Mapping[TopicPartition, int] = consumer.end_offsets(keys)
        return ends

    def _read_up_to(self, consumer: Any, ends: Mapping[TopicPartition, int]) -> None:
        is_another = any(self._positions.get(key, 0) > end for key, end in ends.items())
        if is_another:
            # It is shorter than before: the topic was deleted and recreated.
            self._values.clear()
            self._positions.clear()
        if is_another or consumer.assignment() != set(ends):
            consumer.assign(list(ends))
            consumer.seek_to_beginning(*ends)
            for key in ends.keys() & self._positions.keys():
                consumer.seek(key, self._positions[key])
        deadline = time.monotonic() + PATIENCE_S
        while any((consumer.position(key) or 0) < end for key, end in ends.items()):
            if time.monotonic() > deadline:
                raise KafkaUnavailable(f"an open transaction hides the end of topic {self._topic}")
            for records in consumer.poll(timeout_ms=_POLL_MS).values():
                for record in records:
                    self._note(record.key or b"", record.value)
        self._positions = {key: consumer.position(key) or 0 for key in ends}

    def _note(self, key: bytes, value: bytes | None) -> None:
        if not key.startswith(self._prefix):
            return
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def _consumer(self, isolation: str) -> tuple[Any, Network]:
        consumer, network = open_client(
            KafkaConsumer,
            **self._kafka.named(_CLIENT_ID).options(),
            group_id=None,
            isolation_level=isolation,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
        read_quickly(consumer)
        return consumer, network
