"""Open clients of all Redis servers for the partitions of the frontier, and of the shelf."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from crawlstream.boot.redis.connect import cluster_of, redis_at
from crawlstream.boot.settings import Settings
from crawlstream_frontier.maintenance import FrontierLimits
from crawlstream_frontier.partitions.frontiers import Frontiers, RedisServer
from crawlstream_frontier.shelves.shelf import Shelf


@asynccontextmanager
async def open_frontiers(
    settings: Settings, limits: FrontierLimits | None = None, shelf: Shelf | None = None
) -> AsyncIterator[Frontiers]:
    """Open the partitions on the servers of the settings, without connecting yet.

    ConfigError: the settings cannot be used with a cluster.
    """
    async with AsyncExitStack() as stack:
        servers = redis_servers(settings)
        for server in servers:
            for client in (server.redis, server.waiting):
                stack.push_async_callback(client.aclose)
        yield Frontiers(settings.partitions, servers, limits, shelf)


def redis_servers(settings: Settings) -> Sequence[RedisServer]:
    """Return clients of each server, or of the cluster as one; they connect when they are used."""
    name = ",".join(f"{host}:{port}" for host, port in settings.redis_servers)
    timeout_s = settings.redis_socket_timeout
    if settings.is_redis_cluster:
        redis, waiting = [cluster_of(settings, timeout_s=each) for each in (timeout_s, None)]
        return [RedisServer(name=name, redis=redis, waiting=waiting)]
    return [
        RedisServer(
            name=f"{host}:{port}",
            redis=redis_at(settings, host, port, timeout_s=timeout_s),
            waiting=redis_at(settings, host, port, timeout_s=None),
        )
        for host, port in settings.redis_servers
    ]


@asynccontextmanager
async def shelf_of(settings: Settings) -> AsyncIterator[Shelf | None]:
    """Open the server for the middle of long queues; None if Redis stores it."""
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
