"""Topics: made with the right shape before their first record, and checked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import structlog
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    AuthorizationError,
    ClusterAuthorizationFailedError,
    InvalidConfigurationError,
    InvalidTopicError,
    NoError,
    PolicyViolationError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.structs import TopicPartition

from crawlstream.bus.access.refusals import RIGHTS
from crawlstream.bus.connect import Kafka, admin
from crawlstream.bus.shape import FEW_REPLICAS, UNPACKED
from crawlstream.errors import ConfigError, KafkaUnavailable
from crawlstream.keys import Topics

_KNOWN_LIMIT = 10_000
_RETRY_AFTER_S = 60.0
_CHECKED = (
    *("max.message.bytes", "message.timestamp.type", "retention.ms", "retention.bytes"),
    *("cleanup.policy", "min.insync.replicas"),
)
_CLIENT_ID = "crawlstream-topics"
_DENIED = (
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    PolicyViolationError,
    TopicAuthorizationFailedError,
)
"""Refusals that another attempt meets again; all else may pass (a broker that starts, say)."""
_ABSENT = (InvalidTopicError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError)
"""Answers about a topic that does not exist, or not for us."""

log = structlog.get_logger()


async def ensure_topics(kafka: Kafka, topics: Topics, partitions: int = 1) -> None:
    """Create missing topics of ``topics.all()``, and wait until they can be used.

    With several frontier ``partitions``, the topic of the links between them is created, too, and
    has at least as many partitions. Existing topics with other settings are logged as errors.
    KafkaUnavailable if Kafka does not answer or cannot do it now; ConfigError if it is not allowed.
    """
    wanted = {
        name: kafka.shape.options(
            is_incoming=name == topics.incoming,
            is_compacted=name == topics.runs,
            is_table=name == topics.schedules,
            is_kept=name == topics.overflow,
            is_undelivered=name == topics.undelivered,
        )
        for name in topics.all()
    }
    if partitions > 1:
        # They are kept as long as seeds: a partition that was lost reads both again.
        links = kafka.shape.options(is_undelivered=True)
        wanted[topics.links] = {**links, "num_partitions": partitions}
    await asyncio.to_thread(create_missing, kafka, wanted)
    if partitions > 1:
        await asyncio.to_thread(_require_partitions, kafka, topics.links, partitions)
    for problem in await topic_problems(kafka, topics):
        log.error("create_topic", outcome="misfit", error=problem)


async def topic_problems(kafka: Kafka, topics: Topics) -> Sequence[str]:
    """Return one sentence for each setting of an existing topic that breaks a guarantee."""
    names = (*topics.all(), topics.pipelines)
    existing, settings = await asyncio.to_thread(_existing_settings, kafka, names, _CHECKED)
    return [
        sentence
        for name, told in settings.items()
        for sentence in (
            *_problems_of(name, told, topics=topics, most=kafka.shape.max_record_bytes),
            *_too_few(name, _replicas(existing[name]), int(told["min.insync.replicas"])),
        )
    ]


def _too_few(name: str, replicas: int, acknowledging: int) -> Iterator[str]:
    """With all others away, the last replica would acknowledge what it alone has."""
    if replicas > FEW_REPLICAS and acknowledging < FEW_REPLICAS:
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
    if name == topics.schedules and told["cleanup.policy"] != "compact":
        yield (
            f"topic {name} can delete schedules, which would be gone after a loss of Redis: set"
            " cleanup.policy of the topic to compact"
        )
    if name == topics.pipelines and told["cleanup.policy"] != "compact":
        yield (
            f"topic {name} can delete how far pipelines are, which would write everything again:"
            " set cleanup.policy of the topic to compact"
        )
    if name == topics.runs and "compact" not in told["cleanup.policy"]:
        yield (
            f"topic {name} deletes the endings of runs, so after a loss of Redis ended runs"
            " would be crawled again: set cleanup.policy of the topic to compact,delete"
        )


async def retention_ms(kafka: Kafka, topic: str) -> int:
    """Return how long a topic keeps its records, -1: without a limit.

    KafkaUnavailable if Kafka does not answer or has no such topic.
    """
    _, kept = await asyncio.to_thread(_existing_settings, kafka, [topic], ["retention.ms"])
    if topic not in kept:
        raise KafkaUnavailable(f"topic {topic} does not exist")
    return int(kept[topic]["retention.ms"])


async def list_topics(kafka: Kafka) -> Sequence[str]:
    """Names of all topics, sorted, Kafka's own left out."""
    return await asyncio.to_thread(_list_topics, kafka)


async def forget_records(kafka: Kafka, topic: str, before: Mapping[int, int]) -> None:
    """Delete the records below an offset, by partition; KafkaUnavailable if it is not done now."""
    keys = {TopicPartition(topic, partition): offset for partition, offset in before.items()}
    await asyncio.to_thread(_forget_records, kafka, keys)


class TopicMaker:
    """Creates the topics of single applications on first use and remembers that they exist."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._known: set[str] = set()
        self._refused_until: dict[str, float] = {}
        self._full_until = 0.0
        self._turn = asyncio.Lock()

    async def ensure(self, topic: str) -> bool:
        """Return whether ``topic`` can be written to; a warning says why not, once a minute.

        False only where Kafka has refused to create it. KafkaUnavailable while Kafka does not
        answer: the caller has to wait, or records of the topic would be missing.
        """
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
            wanted = {topic: self._kafka.shape.options()}
            await asyncio.to_thread(create_missing, self._kafka, wanted)
        except ConfigError as error:
            self._refused_until[topic] = time.monotonic() + _RETRY_AFTER_S
            log.warning("publish", outcome="topic_left_out", topic=topic, error=str(error))
            return False
        self._known.add(topic)
        return True

    async def _has_room(self, topic: str) -> bool:
        """Return whether Kafka may have another topic.

        Clients can use any number of application names. At the limit, the existing topics are
        remembered, and no other is looked up for a minute: unknown names cost nothing in that time.
        """
        beginning, dot, _ = topic.partition(".")
        names = [one for one in await list_topics(self._kafka) if one.startswith(beginning + dot)]
        if len(names) < self._kafka.shape.most:
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


def create_missing(kafka: Kafka, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    """Create topics of these shapes unless they exist, and wait for them; blocks.

    KafkaUnavailable, ConfigError.
    """
    with admin(kafka, _CLIENT_ID) as client:
        existing = _existing(client, list(wanted))
        missing = {name: shape for name, shape in wanted.items() if name not in existing}
        if missing and (refused := _create(client, missing)):
            plain = {name: _without_unpacked(missing[name]) for name in refused}
            _create(client, plain, is_last=True)
        # Waits for topics that another process is creating at this moment, too.
        client.wait_for_topics(list(wanted))


def _without_unpacked(shape: Mapping[str, Any]) -> Mapping[str, Any]:
    known = {key: text for key, text in shape["configs"].items() if key != UNPACKED}
    return {**shape, "configs": known}


def _create(
    client: KafkaAdminClient, wanted: Mapping[str, Mapping[str, Any]], *, is_last: bool = False
) -> Sequence[str]:
    """Create topics; return the names of those with a setting that the broker does not know."""
    refused: list[str] = []
    for answer in client.create_topics(dict(wanted), raise_errors=False)["topics"]:
        name, error = answer["name"], for_code(answer["error_code"])
        if error is NoError:
            log.info("create_topic", topic=name, partitions=wanted[name]["num_partitions"])
        elif error is InvalidConfigurationError and not is_last:
            refused.append(name)
        elif error is not TopicAlreadyExistsError:
            kind = ConfigError if error in _DENIED else KafkaUnavailable
            reason = answer["error_message"] or error.__name__
            remedy = f": {RIGHTS}" if issubclass(error, AuthorizationError) else ""
            raise kind(f"Kafka did not create topic {name}: {reason}{remedy}")
    return refused


def _forget_records(kafka: Kafka, before: Mapping[TopicPartition, int]) -> None:
    with admin(kafka, _CLIENT_ID) as client:
        client.delete_records(before)


def _existing(client: KafkaAdminClient, names: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """Descriptions of those of ``names`` that exist; a Kafka can have thousands of others."""
    described = {each["name"]: each for each in client.describe_topics(list(names))}
    return {
        name: described[name]
        for name in names
        if for_code(described[name]["error_code"]) not in _ABSENT
    }


def _existing_settings(
    kafka: Kafka, names: Sequence[str], keys: Sequence[str]
) -> tuple[Mapping[str, Mapping[str, Any]], Mapping[str, Mapping[str, str]]]:
    """Descriptions, and some settings, of those of ``names`` that exist."""
    with admin(kafka, _CLIENT_ID) as client:
        existing = _existing(client, names)
        asked = [ConfigResource(ConfigResourceType.TOPIC, name, list(keys)) for name in existing]
        configs = client.describe_configs(asked, config_filter="all")["topic"] if asked else {}
    return existing, {
        name: {key: told[key]["value"] for key in keys} for name, told in configs.items()
    }


def _replicas(topic: Mapping[str, Any]) -> int:
    """The fewest that a partition of a described topic has."""
    return min((len(part["replica_nodes"]) for part in topic["partitions"]), default=1)


def _require_partitions(kafka: Kafka, topic: str, wanted: int) -> None:
    """Give a topic at least this many partitions; it may have more from before a repartition."""
    with admin(kafka, _CLIENT_ID) as client:
        (described,) = client.describe_topics([topic])
        if len(described["partitions"]) < wanted:
            client.create_partitions({topic: wanted})


def _list_topics(kafka: Kafka) -> Sequence[str]:
    with admin(kafka, _CLIENT_ID) as client:
        return sorted(name for name in client.list_topics() if not name.startswith("__"))
