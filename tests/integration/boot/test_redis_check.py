"""A Redis that would lose work is refused, or warned of, before anything is put into it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from crawlstream.errors import ConfigError
from crawlstream.keys import Partitions
from crawlstream_frontier.opening.redis_check import check_redis, redis_warnings


@pytest.fixture
async def changed(redis: Redis) -> AsyncIterator[Redis]:
    """A Redis whose settings are put back afterwards."""
    names = ("maxmemory-policy", "maxmemory", "appendonly")
    kept = {name: str((await redis.config_get(name))[name]) for name in names}
    yield redis
    for name, value in kept.items():
        await redis.config_set(name, value)


async def test_a_redis_that_evicts_is_refused(changed: Redis) -> None:
    """New data would push out queued pages: no process starts on it."""
    await changed.config_set("maxmemory-policy", "allkeys-lru")
    await changed.config_set("maxmemory", "1gb")
    with pytest.raises(ConfigError, match=r"maxmemory-policy allkeys-lru.*set .* noeviction"):
        await check_redis(changed, Partitions())
    assert await changed.keys() == []
    await changed.config_set("maxmemory", "0")
    await check_redis(changed, Partitions())
    assert len(await redis_warnings(changed)) == 1


async def test_a_redis_without_a_file_is_warned_of(changed: Redis) -> None:
    """Work goes on, since Kafka has the seeds; but it is said."""
    assert await redis_warnings(changed) == []
    await changed.config_set("appendonly", "no")
    (warning,) = await redis_warnings(changed)
    assert "appendonly no" in warning
    await check_redis(changed, Partitions())
