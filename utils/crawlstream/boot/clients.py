"""What the settings say of Kafka, and Redis clients: one for commands, one for waiting."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from crawlstream.boot.redis.connect import client_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.connect import Kafka
from crawlstream.bus.shape import TopicShape
from crawlstream_frontier.shelves.shelf import Shelf


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
    """A client for calls that wait inside Redis: blocking reads, subscriptions.

    It waits as long as the call itself says; keepalive and a ping tell a dead connection.
    """
    return client_of(settings, timeout_s=None)


@asynccontextmanager
async def shelf_of(settings: Settings) -> AsyncIterator[Shelf | None]:
    """The server for the middle of long queues; None where Redis keeps it."""
    if settings.shelf is None:
        yield None
        return
    client = Redis.from_url(
        settings.shelf.get_secret_value(),
        socket_timeout=settings.redis_socket_timeout,
        socket_connect_timeout=settings.redis_socket_timeout,
        socket_keepalive=True,
        health_check_interval=30,
        retry=Retry(NoBackoff(), 1),
    )
    async with client:
        yield Shelf(client, settings.shelf_address)
