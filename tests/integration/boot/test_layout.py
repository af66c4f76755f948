"""Two versions on one Redis: side by side where they agree, refused where they do not."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from crawlstream.boot.redis_check import agree_on_layout
from crawlstream.errors import ConfigError
from crawlstream.frontier.layout import LAYOUT
from crawlstream.keys import FrontierKeys

KEYS = FrontierKeys()


async def test_a_version_that_lays_out_keys_otherwise_is_refused(redis: Redis) -> None:
    """The first process notes the layout; another one's is named with what to do."""
    await agree_on_layout(redis, KEYS)
    await agree_on_layout(redis, KEYS)
    await redis.hset(KEYS.meta(), "layout", str(LAYOUT + 1))
    with pytest.raises(ConfigError, match=f"layout {LAYOUT + 1}, but this version uses"):
        await agree_on_layout(redis, KEYS)


async def test_a_full_redis_can_still_be_worked_on(redis: Redis) -> None:
    """What drains it must be able to start, and notes the layout."""
    await redis.config_set("maxmemory", "1mb")
    try:
        await agree_on_layout(redis, KEYS)
        assert await redis.hget(KEYS.meta(), "layout") == str(LAYOUT).encode()
    finally:
        await redis.config_set("maxmemory", "0")
