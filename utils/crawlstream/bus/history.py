"""What Kafka remembers for a Redis that was lost: committed positions, bounds, states of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kafka.structs import TopicPartition

from crawlstream.bus.connect import admin
from crawlstream.bus.records import Record
from crawlstream.bus.tail import read_topic

_CLIENT_ID = "crawlstream-history"


@dataclass(frozen=True, slots=True)
class Held:
    """What Kafka holds of a partition."""

    oldest: int
    """Offset of the first record that is left."""
    end: int
    committed: int | None
    """Where the group has come to, about a second ago; None: it has never said."""


async def held(hosts: Sequence[str], topic: str, *, group: str) -> dict[int, Held]:
    """Bounds and committed position of each partition; KafkaUnavailable if Kafka does not tell."""
    return await asyncio.to_thread(_held, hosts, topic, group)


async def everything(hosts: Sequence[str], topic: str) -> list[Record]:
    """All records of a small topic; KafkaUnavailable as above."""
    return [r async for r in read_topic(hosts, topic, from_beginning=True, follow=False)]


def _held(hosts: Sequence[str], topic: str, group: str) -> dict[int, Held]:
    with admin(hosts, _CLIENT_ID) as client:
        (described,) = client.describe_topics([topic])
        keys = [TopicPartition(topic, part["partition_index"]) for part in described["partitions"]]
        oldest = client.list_partition_offsets(dict.fromkeys(keys, _EARLIEST))
        ends = client.list_partition_offsets(dict.fromkeys(keys, _LATEST))
        committed = client.list_group_offsets(group).get(group, {})
    return {
        key.partition: Held(
            oldest[key].offset,
            ends[key].offset,
            committed[key].offset if key in committed and committed[key].offset >= 0 else None,
        )
        for key in keys
    }


_EARLIEST, _LATEST = -2, -1
