"""Kafka options from the settings, and Redis clients: one for commands, one for waiting."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from redis.asyncio import Redis

from crawlstream.boot.redis.connect import client_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.connect import Kafka, MakeHeaders
from crawlstream.bus.shape import TopicShape
from crawlstream.wire.cloud_events import headers_of


def kafka_of(settings: Settings, client_id: str = "crawlstream") -> Kafka:
    """Return where Kafka is and how a process uses it; its clients bear the name ``client_id``."""
    return Kafka(
        settings.kafka_hosts,
        client_id,
        security=settings.kafka_access,
        codec=settings.kafka_compression,
        shape=TopicShape(
            partitions=settings.incoming_partitions,
            replication=settings.replication,
            max_record_bytes=settings.max_record_bytes,
            most=settings.max_topics,
        ),
        headers=_headers(settings),
        reads_traces=bool(settings.traces),
    )


def _headers(settings: Settings) -> Mapping[str, MakeHeaders]:
    """Return the makers of headers of records, by topic, so that each sender of events has them."""
    topics = settings.topics
    return {topics.events: partial(headers_of, topics.prefix)} if settings.cloudevents else {}


def redis_client(settings: Settings) -> Redis:
    """A client for commands to partition 0: no answer within REDIS_SOCKET_TIMEOUT is an error."""
    return client_of(settings, timeout_s=settings.redis_socket_timeout)


def blocking_redis(settings: Settings) -> Redis:
    """Return a client for calls that wait inside Redis: blocking reads, subscriptions.

    It waits as long as the call itself says; keepalive and a ping detect a dead connection.
    """
    return client_of(settings, timeout_s=None)
