"""Kafka's copy of what a lost Redis contained: committed positions, bounds, states of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog
from kafka import KafkaAdminClient
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    LeaderNotAvailableError,
    NoError,
    NotCoordinatorError,
    NotLeaderForPartitionError,
    for_code,
)
from kafka.protocol.consumer import OffsetForLeaderEpochRequest
from kafka.structs import OffsetAndMetadata, TopicPartition

from crawlstream.bus.connect import Kafka, admin
from crawlstream.bus.records import Record, name_of_topic
from crawlstream.bus.tail import read_topic
from crawlstream.errors import CrawlstreamError, KafkaUnavailable
from crawlstream.keys import Topics
from crawlstream.model.run_marks import RunMark
from crawlstream.wire import run_marks

_CLIENT_ID = "crawlstream-history"
_EARLIEST, _LATEST = -2, -1
"""Names in Kafka's protocol for the first offset and the one after the last."""
_NOT_YET = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    LeaderNotAvailableError,
    NotCoordinatorError,
    NotLeaderForPartitionError,
)
"""Errors of a Kafka that has just started, and has not assigned all its duties."""
_ASKED_AGAIN_S = (0.2, 0.5, 1.0, 2.0, 4.0)

T = TypeVar("T")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """Bounds of a partition in Kafka, and the position of a group."""

    oldest: int
    """Offset of the first record that is left."""
    end: int
    committed: int | None
    """Where the group has come to, about a second ago; None: it has never said."""

    @property
    def applied(self) -> int:
        """Committed offset of the group; 0 if it is past the end: it is from a deleted topic."""
        committed = self.committed or 0
        return committed if committed <= self.end else 0


async def partition_offsets(kafka: Kafka, topic: str, *, group: str) -> dict[int, PartitionOffsets]:
    """Return bounds and committed offset of each partition; KafkaUnavailable without an answer."""
    return await _asked(partial(_partition_offsets, kafka, topic, group))


async def epoch_ends(kafka: Kafka, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
    """By partition, the offset behind the last record of a leader epoch, or of the one before.

    0: Kafka knows none. A record at or behind it was not written in that epoch, or was lost.
    KafkaUnavailable as above.
    """
    return await _asked(partial(_epoch_ends, kafka, topic, epochs)) if epochs else {}


async def topic_id_of(kafka: Kafka, topic: str) -> str:
    """Its UUID, as batches of it name it; KafkaUnavailable as above."""
    return await _asked(partial(_topic_id_of, kafka, topic))


async def commit_again(
    kafka: Kafka, topic: str, partition: int, *, group: str, offset: int
) -> None:
    """Put the committed offset of a group without members elsewhere; CrawlstreamError otherwise."""
    key = TopicPartition(topic, partition)
    error = await asyncio.to_thread(_commit_again, kafka, group, key, offset)
    if error is not NoError:
        raise CrawlstreamError(
            f"Kafka did not change the offsets of consumer group {group} ({error.__name__}):"
            " stop all kafka-monitors, wait some seconds and retry"
        )


async def read_all(kafka: Kafka, topic: str) -> list[Record]:
    """All records of a small topic; KafkaUnavailable as above."""
    return [r async for r in read_topic(kafka, topic, from_beginning=True, follow=False)]


def marks_of(records: Sequence[Record]) -> list[RunMark]:
    """Parse the states in records of ``<prefix>.runs``; log and skip unreadable records."""
    marks = []
    for record in records:
        if not record.value or _is_of_another_kind(record.key or b""):
            continue
        try:
            marks.append(run_marks.decode(record.value))
        except ValueError as error:
            log.warning("recover", outcome="unreadable", error=str(error))
    return marks


def _is_of_another_kind(key: bytes) -> bool:
    return key == run_marks.EPOCH_KEY or key.startswith(Topics.COORDINATOR_KEYS)


async def _asked(call: Callable[[], T]) -> T:
    """Return the result of a call on a thread; repeat it while Kafka is still starting."""
    for pause_s in _ASKED_AGAIN_S:
        try:
            return await asyncio.to_thread(call)
        except KafkaUnavailable as error:
            if not isinstance(error.__cause__, _NOT_YET):
                raise
        await asyncio.sleep(pause_s)
    return await asyncio.to_thread(call)


def _epoch_ends(kafka: Kafka, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
    with admin(kafka, _CLIENT_ID) as client:
        ask = partial(client._manager.run, _ask_epoch_end, client)  # noqa: SLF001
        return {
            partition: int(ask(TopicPartition(topic, partition), epoch))
            for partition, epoch in epochs.items()
        }


async def _ask_epoch_end(client: KafkaAdminClient, key: TopicPartition, epoch: int) -> int:
    """On the client's own loop: there is no public question."""
    (leader,) = await client._async_get_leader_for_partitions([key])  # noqa: SLF001
    of_topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    asked = of_topic.OffsetForLeaderPartition(
        partition=key.partition, current_leader_epoch=-1, leader_epoch=epoch
    )
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[(key.topic, [asked])])
    answer = await client._manager.send(request, node_id=leader)  # noqa: SLF001
    found = answer.topics[0].partitions[0]
    error = for_code(found.error_code)
    if error is not NoError:
        raise error(f"Kafka reports no end offset for leader epoch {epoch} of {key}")
    return max(int(found.end_offset), 0)


def _topic_id_of(kafka: Kafka, topic: str) -> str:
    with admin(kafka, _CLIENT_ID) as client:
        (described,) = client.describe_topics([topic])
    return name_of_topic(described.get("topic_id"), topic)


def _commit_again(kafka: Kafka, group: str, key: TopicPartition, offset: int) -> type[Exception]:
    with admin(kafka, _CLIENT_ID) as client:
        done = client.alter_group_offsets(group, {key: OffsetAndMetadata(offset, "", -1)})
    error: type[Exception] = done[key]
    return error


def _partition_offsets(kafka: Kafka, topic: str, group: str) -> dict[int, PartitionOffsets]:
    with admin(kafka, _CLIENT_ID) as client:
        (described,) = client.describe_topics([topic])
        keys = [TopicPartition(topic, part["partition_index"]) for part in described["partitions"]]
        oldest = client.list_partition_offsets(dict.fromkeys(keys, _EARLIEST))
        ends = client.list_partition_offsets(dict.fromkeys(keys, _LATEST))
        committed = client.list_group_offsets(group).get(group, {})
    return {
        key.partition: PartitionOffsets(
            oldest[key].offset,
            ends[key].offset,
            committed[key].offset if key in committed and committed[key].offset >= 0 else None,
        )
        for key in keys
    }
