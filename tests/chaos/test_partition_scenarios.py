"""Faults of single partitions and of homes, and processes that break a law between partitions.

With CRAWLSTREAM_LONG=1. A seed that was red is played here again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest

from chaos.broken_partitions import BREAKS
from crawlstream.errors import RedisUnavailable
from crawlstream_chaos.cluster import QUICK, ChaosCluster
from crawlstream_chaos.facts.facts import FedCrawl
from crawlstream_chaos.nemesis import FAULTS
from crawlstream_chaos.rounds import Round, RoundResult
from crawlstream_chaos.scenarios import SCENARIOS, Scenario, Script
from crawlstream_chaos.scenes.answered import answer_beside
from crawlstream_chaos.scenes.companions import feed_beside
from crawlstream_chaos.scripts import strike_in_turn
from crawlstream_chaos.strikes.extra_processes import extra_crawler, extra_process, is_up
from support.waiting import wait_until

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # kafka-python leaves the sockets of refused connections to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

LOOKED_AT_S = 4
"""A run that has had no seed lately is looked at within this."""
FED_BESIDE = 10
"""Minimum number of crawls."""
IN_TURN = (
    "kill-partition", "freeze-partition", "cut-partition", "wipe-partition", "kill-home",
    "cut-home", "wipe-home", "lag-links", "kill-redis", "power-cut", "empty-redis",
    "fill-redis", "mute-redis",
)  # fmt: skip


async def play(cluster: ChaosCluster, scenario: Scenario, *, seconds: float = 6) -> RoundResult:
    """A round of the scenario with short intervals."""
    pace = (0.2, 1.0)
    return await scenario.play(Round(cluster, scenario.name, seed=1, seconds=seconds, pause_s=pace))


async def test_stops_are_answered_while_their_home_is_struck(divided_cluster: ChaosCluster) -> None:
    """Each is answered once, and its run ends once."""
    outcome = await play(divided_cluster, replace(SCENARIOS["home-stop"], rate=4))
    assert not outcome.violations


async def test_seeds_enter_while_who_they_are_for_is_struck(divided_cluster: ChaosCluster) -> None:
    """Each crawl that was fed meanwhile comes to its end, with all pages; clients get theirs."""
    scenario = replace(SCENARIOS["partition-feed"], beside=(feed_beside, answer_beside))
    outcome = await play(divided_cluster, scenario, seconds=20)
    assert not outcome.violations
    assert any(fed.waiting for fed in outcome.facts.fed)
    assert len(outcome.facts.fed) > FED_BESIDE


async def test_whatever_strikes_in_turn_breaks_no_law(divided_cluster: ChaosCluster) -> None:
    """All pages come, repeats are few and under their id, the accounts close, limits are kept."""
    faults = [FAULTS[name] for name in IN_TURN]
    scenario = Scenario("in-turn", "", partial(strike_in_turn, faults), rate=0.4)
    outcome = await play(divided_cluster, scenario)
    assert not outcome.violations
    assert outcome.landed.keys() == set(IN_TURN)


@asynccontextmanager
async def _asleep(cluster: ChaosCluster, kind: str) -> AsyncIterator[None]:
    """Freeze all processes of a kind for the length of the block; none is taken for dead."""
    kinds = (kind, "health")
    pids = [each.pid for one in kinds for each in await cluster.processes(one) if each.pid]
    for pid in pids:
        cluster.freeze(pid)
    try:
        yield
    finally:
        for pid in pids:
            cluster.thaw(pid)


def _broken(name: str) -> dict[str, str]:
    return {"BREAK": name, "PYTHONPATH": os.pathsep.join(sys.path)}


async def broken_crawler(name: str, round_: Round) -> None:
    """A single crawler works on a crawl, and no process reads the last links meanwhile."""
    cluster, module = round_.cluster, {"CRAWLSTREAM_SPIDER_MODULES": "chaos.broken_partitions"}
    async with (
        _asleep(cluster, "crawler"),
        extra_crawler(round_.context, **_broken(name), **module) as crawler,
    ):
        await wait_until(lambda: is_up(crawler), timeout_s=240)
        await cluster.set_rate(QUICK)
        await round_.feed_front_page()
        await wait_until(lambda: round_.came > 0, timeout_s=60)
        async with _asleep(cluster, "kafka-monitor"):
            await wait_until(round_.is_over, timeout_s=60)


async def late_positions(round_: Round) -> None:
    """A broken redis-monitor looks at a run before and after a process reads its links."""
    cluster = round_.cluster
    async with (
        _asleep(cluster, "redis-monitor"),
        extra_process(round_.context, "chaos.broken_partitions", **_broken("late-positions")),
    ):
        await round_.feed_front_page()
        await wait_until(lambda: round_.came > 0, timeout_s=60, every_s=0.02)
        async with _asleep(cluster, "kafka-monitor"):
            await cluster.set_rate(QUICK)
            await wait_until(partial(_is_idle, round_), timeout_s=60, every_s=0.1)
            await asyncio.sleep(LOOKED_AT_S)
        await wait_until(round_.is_over, timeout_s=60)


async def _is_idle(round_: Round) -> bool:
    """Return whether no page of its crawl waits or is in flight in any partition that answers."""
    try:
        state = await round_.cluster.frontier.queries.crawl_state(round_.fed[0].key)
    except RedisUnavailable:
        return False
    return state is not None and not (
        state.queued + state.delayed + state.held or state.missing_partitions
    )


async def dropped_leftovers(round_: Round) -> None:
    """A seed of the next run waits in a partition when the home goes back to before the last end.

    A redis-monitor reports again that the former run is over, and drops the pages that are left.
    """
    cluster, partitions = round_.cluster, round_.cluster.frontier.partitions
    urls = cluster.plain_urls()
    fed = round_.crawl_of("leftovers", urls)
    home = partitions.coordinator(fed.key)
    name = cluster.redis_names[home]
    hosts = {url: url.partition("://")[2].partition(":")[0] for url in urls}
    first, second = (
        next(url for url in urls if (partitions.of(hosts[url]) == home) == at)
        for at in (True, False)
    )
    fed = FedCrawl(crawlid=fed.crawlid, delivered={first: 200, second: 200})
    data, copy = cluster.home / "data" / name, cluster.home / "before"
    await cluster.set_rate(QUICK)
    await round_.feed(fed, first, maxdepth=0)
    await wait_until(lambda: round_.came > 0, timeout_s=60, every_s=0.02)
    shutil.copytree(data, copy)
    await cluster.recorder.ended(fed.crawlid)
    async with _asleep(cluster, "crawler"):
        await round_.feed(fed, second, maxdepth=0)
        await wait_until(partial(_is_waiting, round_), timeout_s=60)
        async with (
            _asleep(cluster, "redis-monitor"),
            extra_process(round_.context, "chaos.broken_partitions", **_broken("drop-leftovers")),
        ):
            await cluster.by_hand(name, cluster.servers[name].kill)
            shutil.rmtree(data)
            copy.rename(data)
            await cluster.by_hand(name, cluster.servers[name].start)
            await wait_until(partial(_is_idle, round_), timeout_s=60)


async def _is_waiting(round_: Round) -> bool:
    return not await _is_idle(round_)


CAUGHT: Mapping[str, Script] = {
    "settle-first": partial(broken_crawler, "settle-first"),
    "forget-need": partial(broken_crawler, "forget-need"),
    "late-positions": late_positions,
    "drop-leftovers": dropped_leftovers,
}


@pytest.mark.parametrize("name", CAUGHT)
async def test_a_process_that_breaks_a_law_is_caught(
    divided_cluster: ChaosCluster, name: str
) -> None:
    """A run ends though pages are missing that no stop has covered."""
    outcome = await play(divided_cluster, Scenario(f"broken-{name}", "", CAUGHT[name], rate=4))
    # The next round does not depend on the pages that it has left behind.
    for redis in divided_cluster.observed.redis:
        await redis.flushall()
    assert "nothing is lost" in {violation.law for violation in outcome.violations}


async def test_every_break_is_to_be_caught() -> None:
    """A way to break a law that nothing catches would prove nothing."""
    assert CAUGHT.keys() == BREAKS.keys()
