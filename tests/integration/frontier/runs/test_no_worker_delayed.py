"""A run ends though what is left of it waits for its time and no crawler of its spider runs."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from crawlstream.model.crawl import CrawlKey
from support.frontier.bench import CRAWL, Bench, links

pytest_plugins = ["support.frontier.fixtures"]
HOUR_MS = 3_600_000
WAITS_AT_MOST = 60 * 4
"""Hours that a run may last here: ten days, where entries fail after one."""


async def outlive(bench: Bench, crawl: CrawlKey = CRAWL) -> int:
    """Let hours pass, as redis-monitors see them, until the run has ended; how many."""
    for hours in range(WAITS_AT_MOST):
        await bench.tend()
        if (await bench.state(crawl)).state == "finished":
            return hours
        await bench.advance(HOUR_MS)
    raise AssertionError(f"the run goes on: {await bench.state(crawl)}")


async def test_seeds_of_a_spider_without_crawlers_fail_after_their_time(bench: Bench) -> None:
    """Waits for `not_before`, then a day for a crawler, and fails with a reason."""
    nobody = replace(CRAWL, spiderid="typo")
    await bench.feed.seeds("a/1", crawl=nobody, not_before=time.time() + 5 * 3600)
    assert 5 + 24 <= await outlive(bench, nobody) <= 5 + 24 + 4
    state = await bench.state(nobody)
    assert (state.failed, state.failed_by_reason) == (1, {"no_worker": 1})


@pytest.mark.parametrize("others", [True, False])
async def test_a_retry_fails_when_the_last_crawler_of_its_spider_is_retired(
    bench: Bench, *, others: bool
) -> None:
    """Its next attempt comes to an end, whether crawlers of other spiders run or not."""
    await bench.feed.seeds("a/1", "b/1")
    leases = await bench.worker.lease(2)
    await bench.worker.requeue(leases[0], delay_ms=HOUR_MS)
    child = links("c", ["x"], spiderid="items" if others else None)
    await bench.worker.settle(leases[1], links=[child])
    await bench.worker.session.retire()
    assert await outlive(bench) <= 1 + 24 + 4
    state = await bench.state()
    assert (state.done, state.failed, state.delayed, state.queued) == (1, 2, 0, 0)


async def test_what_a_client_has_put_off_is_not_failed_before_its_time(bench: Bench) -> None:
    """Keeps a seed of next week though no crawler runs, and a crawler that comes then gets it."""
    await bench.feed.seeds("a/1", not_before=time.time() + 7 * 24 * 3600)
    for _ in range(7 * 24 - 1):
        await bench.tend()
        await bench.advance(HOUR_MS)
    state = await bench.state()
    assert (state.state, state.delayed, state.failed) == ("running", 1, 0)
    await bench.advance(2 * HOUR_MS)
    await bench.tend()
    assert [lease.entry.url for lease in await bench.worker.lease()] == ["http://a/1"]


async def test_many_pages_that_are_due_are_queued_without_a_pause(bench: Bench) -> None:
    """Asks for the next step at once while more of them are due."""
    await bench.feed.seeds(*(f"d{n}/1" for n in range(100)), not_before=time.time() + 60)
    await bench.advance(61_000)
    steps = 0
    while (await bench.frontier.maintenance.tend()).more:
        steps += 1
    assert steps == 100 // 32
    assert (await bench.state()).queued == 100
