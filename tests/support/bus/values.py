"""The values of a topic, as a client of Kafka's has them."""

from __future__ import annotations

import time
from collections.abc import Iterable

from kafka import KafkaConsumer
from kafka.structs import TopicPartition

from crawlstream_chaos.witness import partitions_of

_MARKERS_S = 5.0
"""How long Kafka may take to mark as committed what its writer knows to be: it answers first."""


def values_of(hosts: str, topic: str, *, isolation_level: str = "read_uncommitted") -> list[bytes]:
    """Every value so far, in the order of each partition; none of a topic that is not there."""
    consumer = KafkaConsumer(
        bootstrap_servers=hosts, isolation_level=isolation_level, enable_auto_commit=False
    )
    try:
        numbers = partitions_of(consumer, topic)
        partitions = [TopicPartition(topic, number) for number in numbers]
        if not partitions:
            return []
        if isolation_level == "read_committed":
            _wait_for_markers(hosts, partitions, consumer)
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends, values = consumer.end_offsets(partitions), []
        while any(consumer.position(one) < ends[one] for one in partitions):
            polled = consumer.poll(timeout_ms=200)
            values += [record.value for records in polled.values() for record in records]
        return values
    finally:
        consumer.close()


def _wait_for_markers(
    hosts: str, partitions: Iterable[TopicPartition], committed: KafkaConsumer
) -> None:
    """Until no transaction is open in the partitions, or one surely is."""
    everything = KafkaConsumer(bootstrap_servers=hosts, enable_auto_commit=False)
    try:
        until = time.monotonic() + _MARKERS_S
        while committed.end_offsets(partitions) != everything.end_offsets(partitions):
            if time.monotonic() > until:
                return
            time.sleep(0.05)
    finally:
        everything.close()


def committed(hosts: str, topic: str) -> list[bytes]:
    """Return the values without those of transactions that are open, or were aborted."""
    return values_of(hosts, topic, isolation_level="read_committed")
