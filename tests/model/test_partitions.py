"""The protocol between partitions, explored; `docs/partitions.md` describes it.

Twenty thousand states take a second of CPU. All clusters up to a size, and more random walks:

    PARTITION_STATES=400000 PARTITION_WALKS=4000 ./crawlstream test tests/model/test_partitions.py

The largest has eleven million.
"""

from __future__ import annotations

import os
from functools import cache
from random import Random

import pytest

from support.partitions.clusters import (
    CLUSTERS,
    EXPIRING,
    LATE_ENDING,
    LATE_ENDING_CLUSTER,
    LEAVING_OUT,
    PLANTED,
    Explored,
)
from support.partitions.explore import CANNOT_END, Found, explore, follow
from support.partitions.protocol import Crawl
from support.partitions.values import Bug, State
from support.partitions.walks import walk

STATES = int(os.environ.get("PARTITION_STATES", "65000"))
WALKS = int(os.environ.get("PARTITION_WALKS", "150"))
FIRST_WALK = int(os.environ.get("PARTITION_FIRST_WALK", "0"))
MOST_FOR_A_BUG = 50_000

SMALL = {name: known for name, known in CLUSTERS.items() if known.states <= STATES}


@pytest.mark.parametrize("known", SMALL.values(), ids=SMALL)
def test_every_state_keeps_the_laws(known: Explored) -> None:
    """No run ends early, nothing is fetched twice without a fault, and all can always end."""
    assert explore(Crawl(known.cluster), most=known.states) == Found(known.states, None)


@pytest.mark.parametrize("known", EXPIRING.values(), ids=EXPIRING)
def test_a_run_may_expire_at_any_moment(known: Explored) -> None:
    """Seeds that its end does not cover are delivered all the same."""
    assert explore(Crawl(known.cluster), most=known.states) == Found(known.states, None)


@pytest.mark.parametrize("known", LEAVING_OUT.values(), ids=LEAVING_OUT)
def test_what_kafka_has_may_be_left_out(known: Explored) -> None:
    """Leaves out what Kafka has from any sender, for any partition, and needs it."""
    assert explore(Crawl(known.cluster), most=known.states) == Found(known.states, None)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name.lower())
def test_a_bug_breaks_a_law(bug: Bug) -> None:
    """Each rule of the protocol is needed: without it, some order of calls loses a page."""
    found = _found_with(bug)
    assert found.wrong is not None
    assert found.path[-1] in {"finish", "lease"}


@cache
def _found_with(bug: Bug) -> Found:
    return explore(Crawl(PLANTED[bug]._replace(bug=bug)), most=MOST_FOR_A_BUG)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name.lower())
def test_only_the_bug_breaks_it(bug: Bug) -> None:
    """The calls that lead to the loss with the bug lead to none without it."""
    path, crawl = _found_with(bug).path, Crawl(PLANTED[bug])
    for state in follow(crawl, path[:-1]):
        last = [step for step in crawl.steps(state) if step.name == path[-1]]
        assert [crawl.broken(state, step) for step in last] == [None] * len(last)


def test_a_late_ending_needs_a_fence() -> None:
    """An ending that reaches Kafka late must not end the run that was opened again meanwhile."""
    unfenced = Crawl(LATE_ENDING_CLUSTER._replace(bug=Bug.NO_FENCE))
    fates = {_fate(unfenced, begin) for begin in follow(unfenced, LATE_ENDING)}
    assert CANNOT_END in fates
    fenced = Crawl(LATE_ENDING_CLUSTER)
    assert {_fate(fenced, begin) for begin in follow(fenced, LATE_ENDING)} == {None}


def _fate(crawl: Crawl, begin: State) -> str | None:
    return explore(crawl, begin=begin, most=MOST_FOR_A_BUG).wrong


def test_every_planted_bug_has_its_test() -> None:
    """All of them are looked for."""
    assert {*PLANTED, Bug.NO_FENCE} == {*Bug}


def test_random_walks_keep_the_laws() -> None:
    """Loses nothing in random walks through larger clusters with more faults."""
    for seed in range(FIRST_WALK, FIRST_WALK + WALKS):
        found = walk(Random(seed))
        again = f"PARTITION_FIRST_WALK={seed} PARTITION_WALKS=1"
        assert found.wrong is None, f"{again}: {found.wrong}: {' '.join(found.path)}"
