"""The partitions of the frontier over clients of all Redis servers, as a process opens them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from crawlstream.boot.redis.connect import cluster_of, redis_at
from crawlstream.boot.settings import Settings
from crawlstream_frontier.maintenance import FrontierLimits
from crawlstream_frontier.partitions.frontiers import Frontiers, Server
from crawlstream_frontier.shelves.shelf import Shelf


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
    timeout_s = settings.redis_socket_timeout
    if settings.is_redis_cluster:
        redis, waiting = [cluster_of(settings, timeout_s=each) for each in (timeout_s, None)]
        return [Server(name=name, redis=redis, waiting=waiting)]
    return [
        Server(
            name=f"{host}:{port}",
            redis=redis_at(settings, host, port, timeout_s=timeout_s),
            waiting=redis_at(settings, host, port, timeout_s=None),
        )
        for host, port in settings.redis_servers
    ]
