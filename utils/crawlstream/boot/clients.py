"""Kafka options from the settings, and Redis clients: one for commands, one for waiting."""

from __future__ import annotations

from redis.asyncio import Redis

from crawlstream.boot.redis.connect import client_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.connect import Kafka
from crawlstream.bus.shape import TopicShape


def kafka_of(settings: Settings, client_id: str = "crawlstream") -> Kafka:
    """Where Kafka is and how a process uses it; its clients bear the name ``client_id``."""
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
    )


def redis_client(settings: Settings) -> Redis:
    """A client for commands to partition 0: no answer within REDIS_SOCKET_TIMEOUT is an error."""
    return client_of(settings, timeout_s=settings.redis_socket_timeout)


def blocking_redis(settings: Settings) -> Redis:
    """Return a client for calls that wait inside Redis: blocking reads, subscriptions.

    It waits as long as the call itself says; keepalive and a ping detect a dead connection.
    """
    return client_of(settings, timeout_s=None)
