"""What a process relies on in Redis, told when it starts and not when something is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from redis.asyncio import Redis

from crawlstream.errors import ConfigError
from crawlstream.keys import Partitions
from crawlstream_frontier.layout import BEING_FILLED, LAYOUT, Layout, create_partitions

KEEPS_ALL = "noeviction"

log = structlog.get_logger()


async def check_redis(redis: Redis, partitions: Partitions) -> None:
    """Refuse a Redis that would drop what waits in it; warn of one that forgets when it restarts.

    ConfigError: it evicts keys, or what it holds has another layout. What redis-py raises
    where Redis does not answer is passed on.
    """
    memory = await redis.info("memory")
    refuse_eviction(memory)
    for warning in await redis_warnings(redis):
        log.warning("check", service="redis", error=warning)
    await agree_on_layout(redis, partitions)


def refuse_eviction(memory: Mapping[str, Any]) -> None:
    """ConfigError if a Redis drops what waits in it once its memory is full; ``INFO memory``."""
    if memory["maxmemory"] and memory["maxmemory_policy"] != KEEPS_ALL:
        raise ConfigError(_evicts(memory["maxmemory_policy"]))


async def redis_warnings(redis: Redis) -> Sequence[str]:
    """One sentence for each of its settings that may cost work."""
    return warnings_of(await redis.info("memory"), await redis.info("persistence"))


def warnings_of(memory: Mapping[str, Any], persistence: Mapping[str, Any]) -> Sequence[str]:
    """The same by what a Redis has told of itself."""
    warnings = []
    if memory["maxmemory_policy"] != KEEPS_ALL:
        warnings.append(_evicts(memory["maxmemory_policy"]))
    if not persistence["aof_enabled"]:
        warnings.append(
            "Redis has no append-only file (appendonly no): after each restart, running crawls"
            " start again from their seeds or from its last snapshot; set appendonly yes"
        )
    return warnings


async def agree_on_layout(redis: Redis, partitions: Partitions) -> None:
    """Make sure that what Redis holds is laid out as this version and this process have it.

    Processes of two versions share a frontier while a cluster is being upgraded. Most versions can;
    one that changes what a key holds raises LAYOUT, and is refused until the others are gone.

    ConfigError: it is not. RedisUnavailable: Redis does not answer.
    """
    refuse_layout(await create_partitions(redis, partitions), partitions)


def refuse_layout(layout: Layout, partitions: Partitions) -> None:
    """ConfigError if what Redis holds is laid out otherwise than this process would have it."""
    if layout.version == BEING_FILLED:
        raise ConfigError(
            f"The frontier {partitions.namespace} in Redis is being filled by ./crawlstream"
            " repartition: start the processes when that has ended"
        )
    if layout.version != LAYOUT:
        raise ConfigError(
            f"Redis stores data of layout {layout.version}, but this version uses layout {LAYOUT}:"
            " stop all processes of one version before you start the other (docs/deploying.md,"
            " Upgrading)"
        )
    if layout.partitions != partitions.number:
        raise ConfigError(
            f"The frontier {partitions.namespace} in Redis has {layout.partitions} partition(s),"
            f" but this process is configured for {partitions.number}: configure the same number,"
            " move the frontier with ./crawlstream repartition, or set another"
            " CRAWLSTREAM_NAMESPACE for a new one"
        )


def _evicts(policy: str) -> str:
    return (
        f"Redis evicts keys when its memory is full (maxmemory-policy {policy}), and pages would"
        f" be lost with them: set maxmemory-policy {KEEPS_ALL}"
    )
