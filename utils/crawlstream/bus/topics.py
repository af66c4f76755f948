"""Topics: made with the right shape before their first record, and checked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidConfigurationError,
    InvalidTopicError,
    NoError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)
from kafka.structs import TopicPartition

from crawlstream.bus.connect import admin
from crawlstream.errors import ConfigError, CrawlstreamError, KafkaUnavailable
from crawlstream.keys import Topics

ENVELOPE_BYTES = 64 * 1024
"""What key, headers and batch add to a record of the largest size."""

INCOMING_RETENTION_MS = 14 * 24 * 3600 * 1000
"""The longest crawl whose seeds can be read again after a loss of Redis: two weeks."""

_KEPT_SEGMENT_BYTES = 64 * 1024 * 1024
_KNOWN_LIMIT = 10_000
_RETRY_AFTER_S = 60.0
_CHECKED = (
    *("max.message.bytes", "message.timestamp.type", "retention.ms", "retention.bytes"),
    *("cleanup.policy", "min.insync.replicas"),
)
_CLIENT_ID = "crawlstream-topics"
_UNPACKED = "max.decompressed.message.bytes"
"""What a record may have once it is unpacked; brokers before 4.4 do not know it."""
_FEW_REPLICAS = 2
"""Of so many, one that is missed would stop all writing if both had to acknowledge."""
_DENIED = (ClusterAuthorizationFailedError, InvalidTopicError, TopicAuthorizationFailedError)
"""To ask again is useless; all else may pass (a broker that is still starting, say)."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """How a topic is created; one that exists is left as it is."""

    partitions: int = 4
    replication: int = 1
    max_record_bytes: int = 8 * 1024 * 1024
    most: int = 1_000
    """Topics under one prefix; where there are so many, an application gets none of its own."""

    def options(
        self, *, is_incoming: bool = False, is_compacted: bool = False, is_kept: bool = False
    ) -> Mapping[str, Any]:
        """The shape as kafka-python takes it."""
        largest = str(self.max_record_bytes + ENVELOPE_BYTES)
        configs = {"max.message.bytes": largest, _UNPACKED: largest}
        if is_incoming:
            # Whether a seed came before a stop is told by the broker's clock, not by clients'.
            configs["message.timestamp.type"] = "LogAppendTime"
            configs["retention.ms"] = str(INCOMING_RETENTION_MS)
        if is_compacted:
            # A run is of no use any more when its seeds are gone.
            configs["cleanup.policy"] = "compact,delete"
            configs["retention.ms"] = str(2 * INCOMING_RETENTION_MS)
        if is_kept:
            # What is read is deleted by the reader, segment by segment; nothing else may be.
            configs["retention.ms"] = configs["retention.bytes"] = "-1"
            configs["segment.bytes"] = str(max(_KEPT_SEGMENT_BYTES, 2 * self.max_record_bytes))
        if self.replication > _FEW_REPLICAS:
            # What all of them acknowledge must be in more than one of those that are left.
            configs["min.insync.replicas"] = str(self.replication - 1)
        return {
            "num_partitions": self.partitions,
            "replication_factor": self.replication,
            "configs": configs,
        }


async def ensure_topics(hosts: Sequence[str], topics: Topics, shape: TopicShape) -> None:
    """Create those of ``topics.all()`` that do not exist, and wait until they can be used.

    What an existing topic does otherwise is said aloud. KafkaUnavailable if Kafka does not answer
    or cannot do it now; ConfigError if we may not.
    """
    wanted = {
        name: shape.options(
            is_incoming=name == topics.incoming,
            is_compacted=name == topics.runs,
            is_kept=name == topics.overflow,
        )
        for name in topics.all()
    }
    await asyncio.to_thread(_create_missing, hosts, wanted)
    for problem in await topic_problems(hosts, topics, max_record_bytes=shape.max_record_bytes):
        log.error("create_topic", outcome="misfit", error=problem)


async def topic_problems(
    hosts: Sequence[str], topics: Topics, *, max_record_bytes: int
) -> Sequence[str]:
    """One sentence for each way in which an existing topic does not do what is counted on."""
    settings = await asyncio.to_thread(_settings, hosts, topics.all(), _CHECKED)
    replicas = await asyncio.to_thread(_replicas, hosts, list(settings))
    return [
        sentence
        for name, told in settings.items()
        for sentence in (
            *_problems_of(name, told, topics=topics, most=max_record_bytes),
            *_too_few(name, replicas.get(name, 1), int(told["min.insync.replicas"])),
        )
    ]


def _too_few(name: str, replicas: int, acknowledging: int) -> Iterator[str]:
    """With all others away, the last replica would acknowledge what it alone has."""
    if replicas > _FEW_REPLICAS and acknowledging < _FEW_REPLICAS:
        yield (
            f"topic {name} has {replicas} replicas, but a single one may acknowledge a write,"
            " which is lost if that replica fails: set min.insync.replicas of the topic to"
            f" {replicas - 1}"
        )


def _problems_of(name: str, told: Mapping[str, str], *, topics: Topics, most: int) -> Iterator[str]:
    if int(told["max.message.bytes"]) < most:
        yield (
            f"topic {name} accepts records of at most {told['max.message.bytes']} bytes, but"
            f" records can have up to {most} bytes: raise max.message.bytes of the topic or"
            " lower CRAWLSTREAM_MAX_BODY_BYTES"
        )
    if name == topics.incoming and told["message.timestamp.type"] != "LogAppendTime":
        yield (
            f"topic {name} uses the clocks of its producers for record timestamps, so with a"
            " wrong clock a stop request may affect later seeds or miss earlier ones: set"
            " message.timestamp.type of the topic to LogAppendTime"
        )
    if name == topics.overflow and (told["retention.ms"], told["retention.bytes"]) != ("-1", "-1"):
        yield (
            f"topic {name} can delete spilled links before they are crawled: set retention.ms"
            " and retention.bytes of the topic to -1"
        )
    if name == topics.runs and "compact" not in told["cleanup.policy"]:
        yield (
            f"topic {name} deletes the endings of runs, so after a loss of Redis ended runs"
            " would be crawled again: set cleanup.policy of the topic to compact,delete"
        )


async def retention_ms(hosts: Sequence[str], topic: str) -> int:
    """How long a topic keeps its records, -1: for ever.

    KafkaUnavailable if Kafka does not answer or has no such topic.
    """
    kept = await asyncio.to_thread(_settings, hosts, [topic], ["retention.ms"])
    if topic not in kept:
        raise KafkaUnavailable(f"topic {topic} does not exist")
    return int(kept[topic]["retention.ms"])


async def list_topics(hosts: Sequence[str]) -> Sequence[str]:
    """Names of all topics, sorted, Kafka's own left out."""
    return await asyncio.to_thread(_list_topics, hosts)


async def forget_records(hosts: Sequence[str], topic: str, before: Mapping[int, int]) -> None:
    """Delete the records below an offset, by partition; KafkaUnavailable if it is not done now."""
    keys = {TopicPartition(topic, partition): offset for partition, offset in before.items()}
    await asyncio.to_thread(_forget_records, hosts, keys)


class TopicMaker:
    """Creates the topics of single applications on first use and remembers that they exist."""

    def __init__(self, hosts: Sequence[str], shape: TopicShape) -> None:
        self._hosts = hosts
        self._shape = shape
        self._known: set[str] = set()
        self._refused_until: dict[str, float] = {}
        self._full_until = 0.0
        self._turn = asyncio.Lock()

    async def ensure(self, topic: str) -> bool:
        """Whether ``topic`` can be written to; a warning says why it cannot, once a minute."""
        if topic in self._known:
            return True
        async with self._turn:
            if topic in self._known:
                return True
            if max(self._full_until, self._refused_until.get(topic, 0.0)) > time.monotonic():
                return False
            return await self._make(topic)

    def forget(self, topic: str) -> None:
        """The topic seems to be gone: look again before the next record."""
        self._known.discard(topic)

    async def _make(self, topic: str) -> bool:
        for memory in (self._known, self._refused_until):
            if len(memory) >= _KNOWN_LIMIT:
                memory.clear()
        try:
            if not await self._has_room(topic):
                return topic in self._known
            wanted = {topic: self._shape.options()}
            await asyncio.to_thread(_create_missing, self._hosts, wanted)
        except CrawlstreamError as error:
            self._refused_until[topic] = time.monotonic() + _RETRY_AFTER_S
            log.warning("publish", outcome="topic_left_out", topic=topic, error=str(error))
            return False
        self._known.add(topic)
        return True

    async def _has_room(self, topic: str) -> bool:
        """Whether Kafka bears another topic: whoever may feed makes up as many names as he likes.

        Where it does not, those that exist are known from now on, and no other is looked for until
        a minute has passed: names cost nothing then.
        """
        beginning, dot, _ = topic.partition(".")
        names = [one for one in await list_topics(self._hosts) if one.startswith(beginning + dot)]
        if len(names) < self._shape.most:
            return True
        self._known.update(names)
        self._full_until = time.monotonic() + _RETRY_AFTER_S
        if topic not in self._known:
            told = (
                f"the maximum number of topics is reached ({len(names)}): raise"
                " CRAWLSTREAM_MAX_TOPICS or delete unused topics"
            )
            log.warning("publish", outcome="topic_left_out", topic=topic, error=told)
        return False


def _create_missing(hosts: Sequence[str], wanted: Mapping[str, Mapping[str, Any]]) -> None:
    with admin(hosts, _CLIENT_ID) as client:
        existing = set(client.list_topics())
        missing = {name: shape for name, shape in wanted.items() if name not in existing}
        for name, shape in missing.items():
            if not _create(client, name, shape):
                known = {key: text for key, text in shape["configs"].items() if key != _UNPACKED}
                _create(client, name, {**shape, "configs": known}, is_last=True)
        # Topics that somebody else is creating at this moment are waited for, too.
        client.wait_for_topics(list(wanted))


def _create(
    client: KafkaAdminClient, name: str, shape: Mapping[str, Any], *, is_last: bool = False
) -> bool:
    """Whether the topic exists now; False: the broker does not know all of its settings."""
    (answer,) = client.create_topics({name: shape}, raise_errors=False)["topics"]
    error = for_code(answer["error_code"])
    if error is NoError:
        log.info("create_topic", topic=name, partitions=shape["num_partitions"])
    elif error is InvalidConfigurationError and not is_last:
        return False
    elif error is not TopicAlreadyExistsError:
        kind = ConfigError if error in _DENIED else KafkaUnavailable
        reason = answer["error_message"] or error.__name__
        raise kind(f"Kafka did not create topic {name}: {reason}")
    return True


def _forget_records(hosts: Sequence[str], before: Mapping[TopicPartition, int]) -> None:
    with admin(hosts, _CLIENT_ID) as client:
        client.delete_records(before)


def _settings(
    hosts: Sequence[str], names: Sequence[str], keys: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Some settings of those of ``names`` that exist."""
    with admin(hosts, _CLIENT_ID) as client:
        existing = set(client.list_topics())
        asked = [
            ConfigResource(ConfigResourceType.TOPIC, name, list(keys))
            for name in names
            if name in existing
        ]
        configs = client.describe_configs(asked, config_filter="all")["topic"] if asked else {}
    return {name: {key: told[key]["value"] for key in keys} for name, told in configs.items()}


def _replicas(hosts: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """The fewest that a partition has, of topics that exist."""
    with admin(hosts, _CLIENT_ID) as client:
        described = client.describe_topics(list(names)) if names else []
    return {
        topic["name"]: min(len(part["replica_nodes"]) for part in topic["partitions"])
        for topic in described
        if topic["partitions"]
    }


def _list_topics(hosts: Sequence[str]) -> Sequence[str]:
    with admin(hosts, _CLIENT_ID) as client:
        return sorted(name for name in client.list_topics() if not name.startswith("__"))
