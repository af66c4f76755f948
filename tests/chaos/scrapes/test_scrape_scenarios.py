"""Clients scrape while processes and servers die; a process that breaks a law of theirs is caught.

With CRAWLSTREAM_LONG=1. ``crawlstream chaos --faults scrapes`` is the long form.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial

import pytest

from chaos.scrapes.broken_rest import BREAKS
from crawlstream_chaos.cluster import ChaosCluster
from crawlstream_chaos.rounds import Round, RoundResult
from crawlstream_chaos.scenarios import SCENARIOS, Scenario
from crawlstream_chaos.scenes.scraped import scrape_beside
from crawlstream_chaos.scripts import first_pages
from crawlstream_chaos.strikes.extra_processes import extra_crawler, is_up
from support.waiting import wait_until

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # kafka-python leaves the sockets of refused connections to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

LASTS_S, ENDED_S = 15, 20
CAUGHT = {
    "admit-all": "crawls keep their share",
    "invent": "scraped pages are of the site",
    "forget-replies": "any process answers a scrape",
    "feed-nothing": "each scrape ends",
    "reply-nothing": "each scrape ends",
}


async def play(cluster: ChaosCluster, scenario: Scenario) -> RoundResult:
    """A round of the scenario with short intervals."""
    pace = (0.2, 1.0)
    return await scenario.play(Round(cluster, scenario.name, seed=1, seconds=10, pause_s=pace))


async def test_scrapes_break_no_law_while_all_others_die(chaos_cluster: ChaosCluster) -> None:
    """Each page is the site's, each id ends, any process answers, the crawl keeps its share."""
    outcome = await play(chaos_cluster, SCENARIOS["scrapes"])
    assert not outcome.violations
    scrapes = outcome.facts.scrapes
    assert scrapes is not None
    assert sum(answer.state == "done" for answer in scrapes.answers) > 20
    assert outcome.landed.total() > 0


async def lasting(broken: str, round_: Round) -> None:
    """No fault, but a crawler or a REST process that breaks a law."""
    modules = {"CRAWLSTREAM_SPIDER_MODULES": "chaos.scrapes.broken_rest"}
    async with extra_crawler(round_.context, **broken_by(broken), **modules) as crawler:
        await wait_until(lambda: is_up(crawler), timeout_s=240)
        await first_pages(round_)
        await asyncio.sleep(LASTS_S)


def broken_by(name: str) -> dict[str, str]:
    """Return the environment of a process that breaks a law."""
    return {"BREAK": name, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.parametrize("name", CAUGHT)
async def test_a_process_that_breaks_a_law_is_caught(
    chaos_cluster: ChaosCluster, name: str
) -> None:
    """The auditor names the law that it breaks, from what is seen outside of it."""
    beside = partial(
        scrape_beside, rest=("chaos.scrapes.broken_rest",), env=broken_by(name), ended_s=ENDED_S
    )
    script = partial(lasting, name)
    outcome = await play(
        chaos_cluster, Scenario(f"broken-{name}", "", script, rate=3, beside=(beside,))
    )
    assert CAUGHT[name] in {violation.law for violation in outcome.violations}


async def test_every_break_is_to_be_caught() -> None:
    """A way to break a law that nothing catches would prove nothing."""
    assert CAUGHT.keys() == BREAKS.keys()
