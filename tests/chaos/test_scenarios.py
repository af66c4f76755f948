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
from chaos.nemesis import FAULTS, guest, is_up, settles
from chaos.rounds import Outcome, Round
from chaos.scenarios import SCENARIOS, Scenario, strike_in_turn
from chaos.stage import Stage
from support.waiting import wait_until

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # kafka-python leaves the sockets of refused connections to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

BRIEF = ("crawler-steps", "feed", "stop", "poison")
"""Scenarios that are more than faults in turn."""
IN_TURN = (
    "kill-crawler", "kill-kafka-monitor", "kill-redis-monitor", "kill-redis", "kill-kafka",
    "kill-zookeeper", "freeze-kafka", "power-cut", "empty-redis", "fill-redis", "break-rules",
    "mute-redis", "half-open-kafka",
)  # fmt: skip


async def play(stage: Stage, scenario: Scenario, *, seconds: float = 6) -> Outcome:
    """One round of it, at a brisk pace."""
    pace = (0.2, 1.0)
    return await scenario.play(Round(stage, scenario.name, seed=1, seconds=seconds, pause_s=pace))


@pytest.mark.parametrize("name", BRIEF)
async def test_a_scenario_breaks_no_law(stage: Stage, name: str) -> None:
    """Faults strike while pages wait, and the auditor finds nothing."""
    outcome = await play(stage, replace(SCENARIOS[name], rate=SCENARIOS[name].rate or 4))
    assert not outcome.violations
    assert outcome.landed.total() > 0


async def test_whatever_strikes_in_turn_breaks_no_law(stage: Stage) -> None:
    """All pages come, repeats are few and under their id, the books balance, limits are kept."""
    faults = [FAULTS[name] for name in IN_TURN]
    scenario = Scenario("in-turn", "", partial(strike_in_turn, faults), rate=0.25)
    outcome = await play(stage, scenario)
    assert not outcome.violations
    assert outcome.landed.keys() == set(IN_TURN)


CAUGHT = {
    "drop": "nothing is lost",
    "late": "complete only after Kafka",
    "clock": "no window is overrun",
    "pop": "complete only after Kafka",
    "twice": "repeats are bounded",
    "rename": "repeats are recognisable",
    "look-twice": "no window is overrun",
}


@pytest.mark.parametrize("name", CAUGHT)
async def test_a_crawler_that_breaks_a_law_is_caught(stage: Stage, name: str) -> None:
    """The auditor names the law that it breaks, from what is seen outside of it."""

    async def script(round_: Round) -> None:
        broken = {"BREAK": name, "CRAWLSTREAM_SPIDER_MODULES": "chaos.broken"}
        async with guest(round_.reach, PYTHONPATH=os.pathsep.join(sys.path), **broken) as crawler:
            await wait_until(lambda: is_up(crawler), timeout_s=240)
            await round_.feed_front_page()
            await wait_until(lambda: round_.is_over() or settles(crawler) > 8, timeout_s=120)

    outcome = await play(stage, Scenario(f"broken-{name}", "", script, rate=4))
    assert CAUGHT[name] in {violation.law for violation in outcome.violations}


async def test_every_break_is_to_be_caught() -> None:
    """A way to break a law that nothing catches would prove nothing."""
    assert CAUGHT.keys() == BREAKS.keys()
