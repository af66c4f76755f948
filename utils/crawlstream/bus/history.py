"""What Kafka remembers for a Redis that was lost: committed positions, bounds, states of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from kafka.structs import TopicPartition

from crawlstream.bus.connect import admin
from crawlstream.bus.records import Record
from crawlstream.bus.tail import read_topic
from crawlstream.model.runs import RunMark
from crawlstream.wire import runs

_CLIENT_ID = "crawlstream-history"
_EARLIEST, _LATEST = -2, -1
"""What Kafka's protocol calls the first offset and the one behind the last."""

log = structlog.get_logger()


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


def marks_of(records: Sequence[Record]) -> list[RunMark]:
    """The states in records of ``<prefix>.runs``; one that cannot be read is told and left out."""
    marks = []
    for record in records:
        if not record.value or record.key == runs.EPOCH_KEY:
            continue
        try:
            marks.append(runs.decode(record.value))
        except ValueError as error:
            log.warning("recover", outcome="unreadable", error=str(error))
    return marks


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
