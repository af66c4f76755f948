"""Topics: made with the right shape before their first record, and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crawlstream.keys import Topics


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """How a topic is created; one that exists is left as it is."""

    partitions: int = 4
    replication: int = 1
    max_record_bytes: int = 8 * 1024 * 1024


async def ensure_topics(
    hosts: Sequence[str],
    topics: Topics,
    *,
    partitions: int,
    replication: int,
    max_record_bytes: int,
) -> None:
    """Create those of ``topics.all()`` that do not exist; KafkaUnavailable if Kafka is."""
    raise NotImplementedError


async def topic_problems(
    hosts: Sequence[str], topics: Topics, *, max_record_bytes: int
) -> Sequence[str]:
    """One sentence for each existing topic that cannot hold what will be written to it."""
    raise NotImplementedError


async def list_topics(hosts: Sequence[str]) -> Sequence[str]:
    """Names of all topics, sorted, Kafka's own left out."""
    raise NotImplementedError
