"""Check the settings of Redis that a process relies on when it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from redis.asyncio import Redis

from crawlstream.called import COMMAND
from crawlstream.errors import ConfigError
from crawlstream.keys import Partitions
from crawlstream_frontier.layout import BEING_FILLED, LAYOUT, Layout, create_partitions

KEEPS_ALL = "noeviction"

log = structlog.get_logger()


async def check_redis(redis: Redis, partitions: Partitions) -> None:
    """Refuse a Redis that would evict queued pages; warn if it loses data in a restart.

    ConfigError: it evicts keys, or its data has another layout. Errors of redis-py are passed on
    if Redis does not answer.
    """
    memory = await redis.info("memory")
    refuse_eviction(memory)
    for warning in await redis_warnings(redis):
        log.warning("check", service="redis", error=warning)
    await agree_on_layout(redis, partitions)


def refuse_eviction(memory: Mapping[str, Any]) -> None:
    """Raise ConfigError if Redis evicts keys when its memory is full, by its ``INFO memory``."""
    if memory["maxmemory"] and memory["maxmemory_policy"] != KEEPS_ALL:
        raise ConfigError(_evicts(memory["maxmemory_policy"]))


async def redis_warnings(redis: Redis) -> Sequence[str]:
    """Return a sentence for each setting of Redis that may lose work."""
    return warnings_of(await redis.info("memory"), await redis.info("persistence"))


def warnings_of(memory: Mapping[str, Any], persistence: Mapping[str, Any]) -> Sequence[str]:
    """Return the sentences of ``redis_warnings`` for the given sections of ``INFO``."""
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
    """Check that the data in Redis has the layout of this version and this process.

    Processes of two versions share a frontier while a cluster is upgraded. Most versions can do so.
    A version that changes the contents of a key raises LAYOUT, and is refused until the others
    have stopped.

    ConfigError: the layout differs. RedisUnavailable: Redis does not answer.
    """
    refuse_layout(await create_partitions(redis, partitions), partitions)


def refuse_layout(layout: Layout, partitions: Partitions) -> None:
    """Raise ConfigError if the data in Redis has another layout than this process uses."""
    if layout.version == BEING_FILLED:
        raise ConfigError(
            f"The frontier {partitions.namespace} in Redis is being filled by {COMMAND}"
            " repartition: start the processes when that has ended"
        )
    if layout.version != LAYOUT:
        raise ConfigError(
            f"Redis stores data of layout {layout.version}, but this version uses layout {LAYOUT}:"
            " use the version that wrote them, or see how to upgrade in docs/upgrading.md"
        )
    if layout.partitions != partitions.number:
        raise ConfigError(
            f"The frontier {partitions.namespace} in Redis has {layout.partitions} partition(s),"
            f" but this process is configured for {partitions.number}: configure the same number,"
            f" move the frontier with {COMMAND} repartition, or set another"
            " CRAWLSTREAM_NAMESPACE for a new one"
        )


def _evicts(policy: str) -> str:
    return (
        f"Redis evicts keys when its memory is full (maxmemory-policy {policy}), and pages would"
        f" be lost with them: set maxmemory-policy {KEEPS_ALL}"
    )
