"""Budgets of crawls in several partitions: the coordinator ends their runs."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import Budgets
from crawlstream.model.effects import OutboxRecord, Seed
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
