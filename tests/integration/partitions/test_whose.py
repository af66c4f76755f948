"""Which cluster a frontier of several partitions belongs to, where some are away or new."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError, CrawlstreamError
from crawlstream.tasks import end
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.opening.identity import (
    adopt_cluster,
    check_cluster,
    check_early,
    join_cluster,
)
from crawlstream_frontier.opening.servers import open_frontiers
from crawlstream_frontier.opening.startup_check import check_frontiers, keep_agreeing
from crawlstream_frontier.partitions.frontiers import Frontiers
from support.partitions.servers.divided import addresses, divided_settings
from support.waiting import wait_until

OURS, OTHERS = [divided_settings(KAFKA_TOPIC_PREFIX=prefix) for prefix in ("ours", "others")]


async def _noted(frontiers: Frontiers) -> list[str]:
    """The prefix that each partition has noted."""
    answers = await frontiers.query(
        lambda its: its.scripts.redis.hget(its.scripts.keys.meta(), "prefix")
    )
    return [(value or b"").decode() for value in answers.values]


async def _forget(frontiers: Frontiers, partition: int) -> None:
    scripts = frontiers[partition].scripts
    await scripts.redis.hdel(scripts.keys.meta(), "prefix")


async def test_who_is_refused_has_noted_nothing(frontiers: Frontiers) -> None:
    """Else processes of the cluster itself would be refused from then on."""
    await join_cluster(OURS, frontiers)
    for away in range(3):
        await _forget(frontiers, away)
        with pytest.raises(ConfigError, match=r"KAFKA_TOPIC_PREFIX: others here.*with ours"):
            await join_cluster(OTHERS, frontiers)
        await join_cluster(OURS, frontiers)
        assert await _noted(frontiers) == ["ours"] * 3


async def test_of_two_clusters_that_begin_at_once_one_is_refused(frontiers: Frontiers) -> None:
    """Refuses one of two clusters that begin at once, in all parts the same one."""
    for _ in range(5):
        joins = [join_cluster(settings, frontiers) for settings in (OURS, OTHERS) * 3]
        ended = await asyncio.gather(*joins, return_exceptions=True)
        winner = {*await _noted(frontiers)}
        assert len(winner) == 1
        refused = [isinstance(each, ConfigError) for each in ended]
        assert refused == [name not in winner for name in ("ours", "others")] * 3
        for partition in range(3):
            await _forget(frontiers, partition)


async def test_a_partition_that_is_lost_comes_back_with_its_owner(frontiers: Frontiers) -> None:
    """The process that creates it notes whose it is; another cluster does not work on it."""
    await join_cluster(OURS, frontiers)
    stop = asyncio.Event()
    join = partial(join_cluster, OURS, frontiers)
    agreeing = asyncio.create_task(keep_agreeing(frontiers, (), stop, join))
    try:
        await frontiers.servers[1].redis.flushall()
        await wait_until(lambda: _are_noted(frontiers, "ours"))
        assert not stop.is_set()
        await adopt_cluster(OTHERS, frontiers)
        await frontiers.servers[1].redis.flushall()
        await asyncio.wait_for(stop.wait(), 30)
    finally:
        await end([agreeing])


async def _are_noted(frontiers: Frontiers, prefix: str) -> bool:
    return await _noted(frontiers) == [prefix] * 3


async def test_all_partitions_are_adopted_or_none(
    three: Sequence[RunningServer],
) -> None:
    """An unavailable one would refuse the new processes when it comes; a reader goes on."""
    settings: Settings = divided_settings(REDIS_HOSTS=addresses(three))
    async with open_frontiers(settings) as frontiers:
        await check_frontiers(frontiers)
        await join_cluster(OURS, frontiers)
        three[1].kill()
        with pytest.raises(CrawlstreamError, match=r"partition 1 .*repeat the command"):
            await adopt_cluster(OTHERS, frontiers)
        assert await _noted(frontiers) == ["ours"] * 2
        await check_cluster(OURS, frontiers)
        three[1].start()
        await wait_until(lambda: _adopt(frontiers))
        assert await _noted(frontiers) == ["others"] * 3


async def _adopt(frontiers: Frontiers) -> bool:
    try:
        return bool(await adopt_cluster(OTHERS, frontiers))
    except CrawlstreamError:
        return False


async def test_a_process_that_makes_topics_waits_for_no_redis() -> None:
    """It looks whether Redis is another cluster's, and will wait for it in its turn."""
    async with open_frontiers(divided_settings(REDIS_HOST="127.0.0.1", REDIS_PORT=1)) as frontiers:
        await check_early(OURS, frontiers)
