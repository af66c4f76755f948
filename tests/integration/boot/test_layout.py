"""Several processes on one Redis: side by side where they agree, refused where they do not."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from crawlstream.errors import ConfigError
from crawlstream.keys import Partitions
from crawlstream_frontier.layout import LAYOUT, Layout, create_frontier
from crawlstream_frontier.opening.redis_check import agree_on_layout
from crawlstream_frontier.scripts import Scripts

ONE, FOUR, EIGHT = (Partitions("cs", number) for number in (1, 4, 8))


async def test_a_version_that_lays_out_keys_otherwise_is_refused(redis: Redis) -> None:
    """The first process notes the layout; another one's is named with what to do."""
    await agree_on_layout(redis, ONE)
    await agree_on_layout(redis, ONE)
    assert await redis.hgetall(ONE.root.meta()) == {b"layout": b"%d" % LAYOUT}
    await redis.hset(ONE.root.meta(), "layout", str(LAYOUT + 1))
    with pytest.raises(ConfigError, match=f"layout {LAYOUT + 1}, but this version uses"):
        await agree_on_layout(redis, ONE)


async def test_a_full_redis_can_still_be_worked_on(redis: Redis) -> None:
    """Processes that drain it may start, and note the layout."""
    await redis.config_set("maxmemory", "1mb")
    try:
        await agree_on_layout(redis, ONE)
        await agree_on_layout(redis, Partitions("other", 4))
        assert await redis.hget(ONE.root.meta(), "layout") == str(LAYOUT).encode()
    finally:
        await redis.config_set("maxmemory", "0")


async def test_each_partition_is_created_once(redis: Redis) -> None:
    """A later start changes nothing, and finds again what was lost with one of several servers."""
    await agree_on_layout(redis, FOUR)
    created = await redis.keys()
    assert {*created} == {
        FOUR.root.layout().encode(),
        *(FOUR.keys(partition).meta().encode() for partition in range(4)),
    }
    await redis.delete(FOUR.keys(2).meta())
    await agree_on_layout(redis, FOUR)
    assert {*await redis.keys()} == {*created}


@pytest.mark.parametrize(("first", "other"), [(ONE, FOUR), (FOUR, ONE), (FOUR, EIGHT)])
async def test_another_number_of_partitions_is_refused(
    redis: Redis, first: Partitions, other: Partitions
) -> None:
    """A domain would be in two places; the error names both numbers, and nothing is created."""
    await agree_on_layout(redis, first)
    created = {*await redis.keys()}
    said = rf"has {first.number} partition\(s\), but this process is configured for {other.number}:"
    with pytest.raises(ConfigError, match=said):
        await agree_on_layout(redis, other)
    assert {*await redis.keys()} == created


async def test_recovery_creates_no_frontier_beside_a_divided_one(redis: Redis) -> None:
    """A process that was not told of the partitions is answered their layout."""
    await agree_on_layout(redis, FOUR)
    assert await create_frontier(Scripts(redis, ONE.root)) == Layout(partitions=4)
    assert not await redis.exists(ONE.root.meta())
