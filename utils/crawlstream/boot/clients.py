"""What the settings say of Kafka, and Redis clients: one for commands, one for waiting.

redis-py 8 repeats a command ten times by default, whether or not it has taken effect. Here it
is repeated once, which is what a connection that went stale in the pool needs; every operation
of ours may be repeated, and whoever calls decides what happens after that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from crawlstream.boot.access import revealed
from crawlstream.boot.settings import Settings
from crawlstream.bus.connect import Kafka
from crawlstream.bus.shape import TopicShape
from crawlstream.frontier.shelves.shelf import Shelf


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
    """A client for commands: no answer within REDIS_SOCKET_TIMEOUT is an error."""
    return _client(settings, timeout_s=settings.redis_socket_timeout)


def blocking_redis(settings: Settings) -> Redis:
    """A client for calls that wait inside Redis: blocking reads, subscriptions.

    It waits as long as the call itself says; keepalive and a ping tell a dead connection.
    """
    return _client(settings, timeout_s=None)


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


def _client(settings: Settings, *, timeout_s: float | None) -> Redis:
    ((host, port),) = settings.redis_servers
    return redis_at(settings, host, port, timeout_s=timeout_s)


def redis_at(settings: Settings, host: str, port: int, *, timeout_s: float | None) -> Redis:
    """A client of one server; ``timeout_s`` None: a call waits as long as it says itself."""
    return Redis(
        **redis_security(settings),
        host=host,
        port=port,
        db=settings.redis_db,
        username=settings.redis_username,
        password=revealed(settings.redis_password),
        socket_timeout=timeout_s,
        socket_connect_timeout=settings.redis_socket_timeout,
        socket_keepalive=True,
        health_check_interval=30,
        retry=Retry(NoBackoff(), 1),
    )


def redis_security(settings: Settings) -> dict[str, Any]:
    """What redis-py is told of TLS; nothing where there is none."""
    if not settings.redis_tls:
        return {}
    return {
        "ssl": True,
        "ssl_ca_certs": settings.redis_ca_file,
        "ssl_certfile": settings.redis_certificate_file,
        "ssl_keyfile": settings.redis_key_file,
        "ssl_password": revealed(settings.redis_key_password),
        "ssl_check_hostname": settings.redis_check_hostname,
    }
