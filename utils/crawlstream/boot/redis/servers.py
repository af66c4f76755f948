"""The partitions of the frontier over clients of all Redis servers, as a process opens them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from crawlstream.boot.access import revealed
from crawlstream.boot.clients import redis_at, redis_security
from crawlstream.boot.redis.cluster import ClusterClient
from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError
from crawlstream.frontier.maintenance import FrontierLimits
from crawlstream.frontier.partitions.frontiers import Frontiers, Server
from crawlstream.frontier.shelves.shelf import Shelf


@asynccontextmanager
async def open_frontiers(
    settings: Settings, limits: FrontierLimits | None = None, shelf: Shelf | None = None
) -> AsyncIterator[Frontiers]:
    """The partitions as the settings say where they are; nothing was asked of them yet.

    ConfigError: the settings cannot be used with a cluster.
    """
    async with AsyncExitStack() as stack:
        servers = redis_servers(settings)
        for server in servers:
            for client in (server.redis, server.waiting):
                stack.push_async_callback(client.aclose)
        yield Frontiers(settings.partitions, servers, limits, shelf)


def redis_servers(settings: Settings) -> Sequence[Server]:
    """Clients of each server, or of the cluster as one; they connect when they are asked."""
    name = ",".join(f"{host}:{port}" for host, port in settings.redis_servers)
    if settings.is_redis_cluster:
        return [
            Server(
                name=name,
                redis=_cluster(settings, timeout_s=settings.redis_socket_timeout),
                waiting=_cluster(settings, timeout_s=None),
            )
        ]
    return [
        Server(
            name=f"{host}:{port}",
            redis=redis_at(settings, host, port, timeout_s=settings.redis_socket_timeout),
            waiting=redis_at(settings, host, port, timeout_s=None),
        )
        for host, port in settings.redis_servers
    ]


def _cluster(settings: Settings, *, timeout_s: float | None) -> Redis:
    security = redis_security(settings)
    if security.pop("ssl_password", None) is not None:
        raise ConfigError(
            "CRAWLSTREAM_REDIS_SSL_KEY_PASSWORD: a Redis Cluster needs a private key without a"
            " password"
        )
    client = ClusterClient(
        **security,
        startup_nodes=[ClusterNode(host, port) for host, port in settings.redis_servers],
        # Names outlive the addresses that the nodes tell of each other.
        dynamic_startup_nodes=False,
        # A primary without a successor takes its own partitions with it, not the others.
        require_full_coverage=False,
        username=settings.redis_username,
        password=revealed(settings.redis_password),
        socket_timeout=timeout_s,
        socket_connect_timeout=settings.redis_socket_timeout,
        socket_keepalive=True,
        health_check_interval=30,
        retry=Retry(NoBackoff(), 1),
    )
    # The methods that are used are the same; redis-py's types do not say so.
    return cast(Redis, client)
