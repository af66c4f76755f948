"""Budgets of crawls: a run that has spent one ends as if its time were over."""

from __future__ import annotations

import time

from crawlstream.model.crawl import Budgets
from support.frontier.bench import Bench, endings

pytest_plugins = ["support.frontier.fixtures"]

HOUR_S = 3_600


async def test_a_budget_of_time_ends_a_run(bench: Bench) -> None:
    """Waiting pages expire, the leased one ends well, and the ending names the budget."""
    await bench.feed.seeds("a/1", "a/2", budgets=Budgets(max_seconds=HOUR_S))
    state = await bench.state()
    assert 0 <= state.expires - (state.started_at + HOUR_S) < 1
    (step,) = await bench.tend()
    assert step.next_ms is not None
    assert HOUR_S * 1000 - 60_000 < step.next_ms <= HOUR_S * 1000 + 1_000
    (lease,) = await bench.worker.lease()
    await over(bench)
    assert not await bench.worker.lease()
    await bench.tend()
    await bench.worker.settle(lease)
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.kind, ending.budget) == ("crawl_expired", "max_seconds")
    assert [ending.counters[name] for name in ("done", "expired")] == [1, 1]


async def over(bench: Bench) -> None:
    """Let the time of the first crawl have come."""
    await bench.redis.hset("{cs0}x:1", "expires", int(time.time()) - 1)
    await bench.redis.zadd("{cs0}expiry", {"1": int(time.time()) - 1})


async def test_of_two_ends_the_first_one_counts(bench: Bench) -> None:
    """A run ends by its `expires` or its budget of time; the ending names that budget."""
    soon, late = int(time.time()) + 60, int(time.time()) + 2 * HOUR_S
    await bench.feed.seeds("a/1", "a/2", expires=soon, budgets=Budgets(max_seconds=HOUR_S))
    assert (await bench.state()).expires == soon
    await over(bench)
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.kind, ending.budget) == ("crawl_expired", "")
    await bench.feed.seeds("a/1", expires=late, budgets=Budgets(max_seconds=HOUR_S))
    assert soon < (await bench.state()).expires < late


async def test_the_latest_seed_with_an_end_sets_it(bench: Bench) -> None:
    """Its budget counts from the beginning of the run; a seed without an end changes nothing."""
    await bench.feed.seeds("a/1", budgets=Budgets(max_seconds=HOUR_S))
    first = (await bench.state()).expires
    await bench.feed.seeds("a/2")
    assert (await bench.state()).expires == first
    await bench.feed.seeds("a/3", budgets=Budgets(max_seconds=2 * HOUR_S))
    assert (await bench.state()).expires == first + HOUR_S
    later = int(time.time()) + 10 * HOUR_S
    await bench.feed.seeds("a/4", expires=later)
    assert (await bench.state()).expires == later
    await over(bench)
    await bench.tend()
    (ending,) = await endings(bench)
    assert ending.budget == ""


async def test_a_seed_after_the_time_opens_a_run_with_a_time_of_its_own(bench: Bench) -> None:
    """The budget of the ended run is not left over."""
    await bench.feed.seeds("a/1", budgets=Budgets(max_seconds=HOUR_S))
    await over(bench)
    answer = await bench.feed.seeds("a/2", budgets=Budgets(max_seconds=2 * HOUR_S))
    assert dict(answer.runs) == {1: 2}
    state = await bench.state()
    assert 0 <= state.expires - (state.started_at + 2 * HOUR_S) < 1
    await bench.tend()
    assert [(one.run, one.budget) for one in await endings(bench)] == [(1, "max_seconds")]
    assert await bench.worker.urls() == ["a/2"]


async def test_the_next_run_has_no_budget_unless_a_seed_sets_it(bench: Bench) -> None:
    """Budgets of time belong to their run."""
    await bench.feed.seeds("a/1", budgets=Budgets(max_seconds=HOUR_S))
    await over(bench)
    await bench.feed.seeds("a/2")
    assert (await bench.state()).expires == 0
