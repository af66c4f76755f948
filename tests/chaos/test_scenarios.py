"""The rows of the table, each once and briefly; ``crawlstream chaos`` plays them for long.

With CRAWLSTREAM_LONG=1. A seed that was red is played here again.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial

import pytest

from chaos.broken import BREAKS
from crawlstream_chaos.cluster import QUICK, ChaosCluster
from crawlstream_chaos.nemesis import FAULTS
from crawlstream_chaos.rounds import Round, RoundResult
from crawlstream_chaos.scenarios import SCENARIOS, Scenario
from crawlstream_chaos.scenes.answered import answer_beside
from crawlstream_chaos.scripts import strike_in_turn
from crawlstream_chaos.strikes.extra_processes import extra_crawler, extra_process, is_up, settles
from support.waiting import wait_until

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # kafka-python leaves the sockets of refused connections to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

BRIEF = (
    "crawler-steps", "feed", "stop", "poison", "full", "log-truncated", "proxies", "render",
    "firings", "retired", "signed", "paid",
)  # fmt: skip
"""Scenarios that are more than faults in turn."""
IN_TURN = (
    "kill-crawler", "kill-kafka-monitor", "kill-redis-monitor", "kill-redis", "kill-kafka",
    "kill-zookeeper", "freeze-kafka", "power-cut", "empty-redis", "fill-redis", "break-rules",
    "mute-redis", "half-open-kafka", "step-clock", "add-partitions",
)  # fmt: skip


async def play(cluster: ChaosCluster, scenario: Scenario, *, seconds: float = 6) -> RoundResult:
    """A round of the scenario with short intervals."""
    pace = (0.2, 1.0)
    return await scenario.play(Round(cluster, scenario.name, seed=1, seconds=seconds, pause_s=pace))


@pytest.mark.parametrize("name", BRIEF)
async def test_a_scenario_breaks_no_law(chaos_cluster: ChaosCluster, name: str) -> None:
    """Faults strike while pages wait, and the auditor finds nothing."""
    outcome = await play(chaos_cluster, replace(SCENARIOS[name], rate=SCENARIOS[name].rate or 4))
    assert not outcome.violations
    assert outcome.landed.total() > 0


async def test_pages_are_skipped_while_crawlers_die(chaos_cluster: ChaosCluster) -> None:
    """Each is named by an event, and counted; all other pages come."""
    outcome = await play(chaos_cluster, replace(SCENARIOS["skips"], rate=4))
    assert not outcome.violations
    assert any(each.value.get("event") == "pages_skipped" for each in outcome.facts.records)


async def test_whatever_strikes_in_turn_breaks_no_law(chaos_cluster: ChaosCluster) -> None:
    """All pages come, repeats are few and under their id, the accounts close, limits are kept.

    Clients that wait for pages meanwhile are answered, with the places of their results.
    """
    faults = [FAULTS[name] for name in IN_TURN]
    script = partial(strike_in_turn, faults)
    scenario = Scenario("in-turn", "", script, rate=0.25, beside=(answer_beside,))
    outcome = await play(chaos_cluster, scenario)
    assert not outcome.violations
    assert any(fed.waiting for fed in outcome.facts.fed)
    assert outcome.landed.keys() == set(IN_TURN)


CAUGHT = {
    "drop": "nothing is lost",
    "children-last": "nothing is lost",
    "late": "complete only after Kafka",
    "pop": "complete only after Kafka",
    "skip": "skipped pages are named",
    "share": "the ledger adds up",
    "unfence": "the ledger adds up",
    "uncounted": "the ledger adds up",
    "clock": "no window is overrun",
    "look-twice": "no window is overrun",
    "twice": "repeats are bounded",
    "rename": "repeats are recognisable",
    "end-twice": "one ending a run",
    "sign-once": "every request is signed",
    "sign-another": "every request is signed",
    "trace-anew": "each page is one trace",
    "trace-no-page": "traces are connected",
    "trace-nothing": "results are traced",
    "sign-none": "every request is signed",
    "keep-body": "no forbidden body leaves",
    "keep-reserved": "no forbidden body leaves",
    "pass-over-paths": "no forbidden body leaves",
}


async def broken_crawler(name: str, round_: Round) -> None:
    """A crawl, a good part of which a crawler that breaks a law has leased."""
    broken = {"BREAK": name, "CRAWLSTREAM_SPIDER_MODULES": "chaos.broken"}
    async with extra_crawler(
        round_.context, PYTHONPATH=os.pathsep.join(sys.path), **broken
    ) as crawler:
        await wait_until(lambda: is_up(crawler), timeout_s=240)
        await round_.feed_front_page()
        # A quarter of the pages is sampled, and their spans are sent within a second.
        most = 40 if name.startswith("trace") else 8
        await wait_until(lambda: round_.is_over() or settles(crawler) > most, timeout_s=120)


async def broken_redis_monitor(name: str, round_: Round) -> None:
    """A crawl that is ended by a redis-monitor that breaks a law, the other one being asleep."""
    cluster, broken = round_.cluster, {"BREAK": name, "PYTHONPATH": os.pathsep.join(sys.path)}
    async with extra_process(round_.context, "chaos.broken", **broken):
        await round_.feed_front_page()
        await cluster.set_rate(QUICK)
        (good,) = [each.pid for each in await cluster.processes("redis-monitor") if each.pid]
        cluster.freeze(good)
        try:
            await wait_until(round_.is_over, timeout_s=120)
        finally:
            cluster.thaw(good)


@pytest.mark.parametrize("name", CAUGHT)
async def test_a_process_that_breaks_a_law_is_caught(
    chaos_cluster: ChaosCluster, name: str
) -> None:
    """The auditor names the law that it breaks, from what is seen outside of it."""
    script = broken_redis_monitor if name == "end-twice" else broken_crawler
    outcome = await play(
        chaos_cluster, Scenario(f"broken-{name}", "", partial(script, name), rate=4)
    )
    # The next round does not depend on the pages that it has left behind.
    await chaos_cluster.observed.redis[0].flushall()
    assert CAUGHT[name] in {violation.law for violation in outcome.violations}


async def test_every_break_is_to_be_caught() -> None:
    """A way to break a law that nothing catches would prove nothing."""
    assert CAUGHT.keys() == BREAKS.keys()
