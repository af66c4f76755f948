"""Processes of one kind work with the same values, or do not begin."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from crawlstream.errors import ConfigError
from crawlstream.keys import FrontierKeys
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat, living

KEYS = FrontierKeys()


def heartbeat(
    redis: Redis, *, kind: str = "crawler", spider: str = "link", **values: str
) -> Heartbeat:
    """Heartbeat of a process with these values."""
    return Heartbeat(redis, KEYS, Process(kind=kind, spider=spider, values=values))


async def test_equals_with_the_same_values_join(redis: Redis) -> None:
    """They are listed with their values; so are other kinds and spiders, with any others."""
    joined = [
        heartbeat(redis, RETRY_TIMES="3"),
        heartbeat(redis, RETRY_TIMES="3"),
        heartbeat(redis, spider="wandering", RETRY_TIMES="5"),
        heartbeat(redis, kind="redis-monitor", spider="", RETRY_TIMES="7"),
        heartbeat(redis),
    ]
    for one in joined:
        await one.join()

    heard = {process.name: process for process in await living(redis, KEYS)}
    assert heard == {one.process.name: one.process for one in joined}


async def test_an_equal_with_another_value_is_refused(redis: Redis) -> None:
    """Its error has both values and it leaves no trace; once the first has left, it may join."""
    first, second = heartbeat(redis, RETRY_TIMES="3"), heartbeat(redis, RETRY_TIMES="5")
    await first.join()
    with pytest.raises(ConfigError) as refused:
        await second.join()
    assert f"RETRY_TIMES is 5 here and 3 in {first.process.name}: every crawler" in str(
        refused.value
    )
    assert await living(redis, KEYS) == [first.process]

    await first.retire()
    await second.join()


async def test_an_equal_that_fell_silent_decides_nothing(redis: Redis) -> None:
    """A dead one counts only as long as it is taken to live."""
    first = heartbeat(redis, RETRY_TIMES="3")
    await first.join()
    await redis.delete(KEYS.process(first.process.name))
    await heartbeat(redis, RETRY_TIMES="5").join()


async def test_a_full_redis_can_still_be_joined(redis: Redis) -> None:
    """A process that drains it may start, and is known to live; a differing one is refused."""
    first, second = heartbeat(redis, RETRY_TIMES="3"), heartbeat(redis, RETRY_TIMES="3")
    await first.join()
    await redis.config_set("maxmemory", "1mb")
    try:
        await second.join()
        await first.beat()
        with pytest.raises(ConfigError):
            await heartbeat(redis, RETRY_TIMES="5").join()
        assert {one.name for one in await living(redis, KEYS)} == {
            first.process.name,
            second.process.name,
        }
    finally:
        await redis.config_set("maxmemory", "0")


async def test_of_those_that_join_at_once_one_decides(redis: Redis) -> None:
    """Keeps the value of one process, however several that join at once interleave."""
    for _ in range(20):
        all_of_them = [heartbeat(redis, RETRY_TIMES=str(number % 3)) for number in range(6)]
        joining = (one.join() for one in all_of_them)
        outcomes = await asyncio.gather(*joining, return_exceptions=True)
        assert all(one is None or isinstance(one, ConfigError) for one in outcomes)
        values = {process.values["RETRY_TIMES"] for process in await living(redis, KEYS)}
        assert len(values) == 1
        for one in all_of_them:
            await one.retire()
