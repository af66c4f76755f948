"""What a process relies on in Redis, told when it starts and not when something is missing."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from redis.asyncio import Redis

from crawlstream.boot.layout import agree_on_layout
from crawlstream.errors import ConfigError
from crawlstream.keys import FrontierKeys

KEEPS_ALL = "noeviction"

log = structlog.get_logger()


async def check_redis(redis: Redis, keys: FrontierKeys) -> None:
    """Refuse a Redis that would drop what waits in it; warn of one that forgets when it restarts.

    ConfigError: it evicts keys, or lays them out otherwise than this version. What redis-py raises
    where Redis does not answer is passed on.
    """
    memory = await redis.info("memory")
    if memory["maxmemory"] and memory["maxmemory_policy"] != KEEPS_ALL:
        raise ConfigError(_evicts(memory["maxmemory_policy"]))
    for warning in await redis_warnings(redis):
        log.warning("check", service="redis", error=warning)
    await agree_on_layout(redis, keys)


async def redis_warnings(redis: Redis) -> Sequence[str]:
    """One sentence for each of its settings that may cost work."""
    memory, persistence = await redis.info("memory"), await redis.info("persistence")
    warnings = []
    if memory["maxmemory_policy"] != KEEPS_ALL:
        warnings.append(_evicts(memory["maxmemory_policy"]))
    if not persistence["aof_enabled"]:
        warnings.append(
            "Redis has no append-only file (appendonly no): after each restart, running crawls"
            " start again from their seeds or from its last snapshot; set appendonly yes"
        )
    return warnings


def _evicts(policy: str) -> str:
    return (
        f"Redis evicts keys when its memory is full (maxmemory-policy {policy}), and pages would"
        f" be lost with them: set maxmemory-policy {KEEPS_ALL}"
    )
