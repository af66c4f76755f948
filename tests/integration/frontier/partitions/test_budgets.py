"""Budgets of crawls in several partitions: the coordinator ends their runs."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import Budgets
from crawlstream.model.effects import OutboxRecord, Outcome, Seed, Settle
from crawlstream.model.partitions.messages import Spent
from crawlstream_frontier.partitions.confirm import summed
from crawlstream_frontier.streams import Streams
from support.partitions.two import Two, open_two
from support.waiting import wait_until

pytest_plugins = ("support.frontier.fixtures",)
pytestmark = pytest.mark.usefixtures("still")

DEDUPE_MS = 60_000


@pytest.fixture
async def two(redis: Redis) -> Two:
    """Two partitions with nothing in them."""
    return await open_two(redis)


def budgeted(two: Two, budgets: Budgets) -> None:
    """Give the seeds of a cluster budgets."""
    two.records = [
        replace(record, budgets=budgets) for record in two.records if isinstance(record, Seed)
    ]


async def endings(two: Two, redis: Redis) -> list[OutboxRecord]:
    """Ends of runs that the coordinator has published."""
    streams = Streams(redis, two.parts[0].keys, "reader")
    owed = await streams.records(count=100, block_ms=0)
    return [one for one in owed if isinstance(one, OutboxRecord) and one.kind != "crawl_started"]


async def test_a_budget_of_time_ends_a_run_everywhere(two: Two, redis: Redis) -> None:
    """Partitions lease nothing from then on, and the coordinator's ending names the budget."""
    budgeted(two, Budgets(max_seconds=2))
    began = time.time()
    await two.feed()
    for place in (0, 1):
        await two.confirm(place)
    states = [await part.frontier.queries.crawl_state(two.crawl) for part in two.parts]
    assert all(began + 1.9 <= one.expires <= time.time() + 3 for one in states if one)
    coordinator = two.parts[0].coordinator

    async def due() -> object:
        return (await coordinator.overdue(0, DEDUPE_MS)).to_note

    assert not await due()
    await wait_until(due)
    (note,) = (await coordinator.overdue(0, DEDUPE_MS)).to_note
    assert [await two.lease(place) for place in (0, 1)] == [None, None]
    assert await coordinator.lapse(note)
    assert await two.tell() == 0
    (ended,) = await endings(two, redis)
    assert (ended.kind, ended.budget) == ("crawl_expired", "max_seconds")
    assert ended.counters["expired"] == 2


async def spent_in(two: Two) -> list[str]:
    """Budgets that the runs have spent by a look at both partitions, as redis-monitors take it."""
    coordinator = two.parts[0].coordinator
    runs = await coordinator.spend([])
    looks = [await part.contexts.look([run.context for run in runs]) for part in two.parts]
    spent = [
        Spent(run.context, run.run, budget)
        for n, run in enumerate(runs)
        if (budget := run.budgets.spent_by(summed(run, looks, n)))
    ]
    await coordinator.spend(spent)
    return [each.budget for each in spent]


async def test_bytes_of_all_partitions_end_a_run(two: Two, redis: Redis) -> None:
    """Neither has spent the budget alone; once the coordinator knows, it takes no seed any more."""
    budgeted(two, Budgets(max_bytes=1_000))
    await two.feed()
    for place in (0, 1):
        await two.confirm(place)
        found = await two.lease(place)
        assert found
        settle = Settle(
            token=found[0].lease.token, outcome=Outcome.DONE, reason="2xx", body_bytes=600 - place
        )
        assert await spent_in(two) == []
        await found[0].session.exchange(settles=[settle])
    assert await spent_in(two) == ["max_bytes"]
    assert await spent_in(two) == []
    coordinator = two.parts[0].coordinator
    assert (await coordinator.quiet(0))[0] == []
    (note,) = (await coordinator.overdue(0, DEDUPE_MS)).to_note
    assert await coordinator.lapse(note)
    assert await two.tell() == 0
    (ended,) = await endings(two, redis)
    assert (ended.kind, ended.budget) == ("crawl_expired", "max_bytes")
    assert (ended.counters["bytes"], ended.counters["done"]) == (1_199, 2)
    assert await spent_in(two) == []


async def test_a_coordinator_ends_only_the_run_that_was_looked_at(two: Two) -> None:
    """Another run has a budget of its own."""
    budgeted(two, Budgets(max_bytes=1_000))
    await two.feed()
    coordinator = two.parts[0].coordinator
    (run,) = await coordinator.spend([])
    assert run.budgets.max_bytes == 1_000
    known = await coordinator.runs([two.crawl])
    assert known[two.crawl].budgets == {"max_bytes": 1_000}
    await coordinator.spend([Spent(run.context, run.run + 1, "max_bytes")])
    later = run.context._replace(generation=run.context.generation + 1)
    await coordinator.spend([Spent(later, run.run, "max_bytes")])
    assert (await coordinator.overdue(0, DEDUPE_MS)).to_note == []
