"""A coordinator goes back to an earlier moment, or loses all: published records stay true.

Partitions know of an ending that their coordinator has forgotten; or Kafka has a stop of
which the coordinator knows nothing, not even the run.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from redis.asyncio import Redis

from crawlstream.keys import Partitions
from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Command, OutboxRecord, Outcome, Settle
from crawlstream.model.partitions.messages import CoordinatorMark
from crawlstream_frontier.layout import Layout, create_frontier
from crawlstream_frontier.partitions.confirm import is_over, summed
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.streams import Streams
from support.partitions.real import LINKS, Moment
from support.partitions.two import Two, open_two

pytest_plugins = ("support.frontier.fixtures",)
pytestmark = pytest.mark.usefixtures("still")


@pytest.fixture
async def two(redis: Redis) -> Two:
    """Two partitions with nothing in them."""
    return await open_two(redis)


async def _crawl(two: Two) -> None:
    """Everything that waits is done."""
    for place in range(2):
        await two.confirm(place)
        found = await two.lease(place)
        assert found
        settle = Settle(token=found[0].lease.token, outcome=Outcome.DONE, reason="2xx")
        await found[0].session.exchange(settles=[settle])


async def _end(two: Two) -> None:
    """Look once; the run is over."""
    coordinator = two.parts[0].coordinator
    (run,), _ = await coordinator.quiet(0)
    looks = [await part.contexts.look([run.context]) for part in two.parts]
    assert is_over(run, looks, 0, LINKS, coordinator=0)
    assert await coordinator.finish(run, summed(run, looks, 0))


async def _go_back(two: Two, moment: Moment | None, *marks: CoordinatorMark) -> None:
    """Put the coordinator in another epoch, and restore it from Kafka."""
    coordinator = two.parts[0]
    await coordinator.go_back(moment, 2)
    assert await coordinator.coordinator.restore(coordinator.epochs[2], marks)


async def _told(two: Two, redis: Redis) -> list[OutboxRecord]:
    owed = await Streams(redis, two.parts[0].keys, "reader").records(count=10, block_ms=0)
    return [one for one in owed if isinstance(one, OutboxRecord)]


@pytest.mark.parametrize("is_told", [False, True])
async def test_an_ending_that_the_coordinator_forgot_comes_with_all_counters(
    two: Two, redis: Redis, *, is_told: bool
) -> None:
    """Partitions that know of it still have the final counters of the run."""
    await two.feed()
    await _crawl(two)
    before = await two.parts[0].moment()
    await _end(two)
    if is_told:
        assert await two.tell() == 0
    await _go_back(two, before)
    await _end(two)
    (_, ended) = await _told(two, redis)
    assert (ended.kind, ended.reasons["done"]) == ("crawl_finished", {"2xx": 2})
    assert (ended.counters["admitted"], ended.counters["done"]) == (2, 2)


async def test_what_a_run_had_come_to_is_forgotten_when_the_next_is_open(two: Two) -> None:
    """It is neither counted there, nor kept permanently."""
    await two.feed()
    await _crawl(two)
    await _end(two)
    assert await two.tell() == 0
    await two.parts[0].coordinator.published(two.crawl, 1)
    two.records.append(replace(two.records[1], offset=2))
    stamps = (await two.parts[0].coordinator.enroll(two.batch(2, 3))).stamps
    await two.parts[1].reading.take(two.batch(2, 3), stamps)
    await two.confirm(1)
    (run,), _ = await two.parts[0].coordinator.quiet(0)
    looks = [await part.contexts.look([run.context]) for part in two.parts]
    assert [look.reports[0].kept_run for look in looks] == [1, 0]
    assert summed(run, looks, 0)["done"] == 0


async def _stopped(two: Two, stop: Command) -> tuple[CoordinatorMark, Lease]:
    """A run is stopped while one of its pages is in flight."""
    await two.feed()
    await two.confirm(1)
    lease, _ = await two.page(1)
    batch = replace(two.batch(0, 2), start=2, next=3, records=[stop])
    note = (await two.parts[0].coordinator.enroll(batch)).note
    assert note
    assert (await two.parts[0].coordinator.enroll(batch, {2: note})).note is None
    return note.mark(at_ms=2), lease


async def _settle(two: Two, lease: Lease) -> None:
    (name,) = await two.redis.keys(two.parts[1].keys.tag + "h:*")
    worker = name.decode().rpartition(":")[2]
    session = two.parts[1].frontier.session(worker, "link")
    settle = Settle(token=lease.token, outcome=Outcome.DONE, reason="2xx")
    assert not (await session.exchange(settles=[settle])).stale


@pytest.mark.parametrize("has_lost_all", [False, True])
async def test_a_stop_that_the_coordinator_forgot_is_answered_and_its_run_ends_once(
    two: Two, redis: Redis, *, has_lost_all: bool
) -> None:
    """Answers the stop by its record in Kafka, with its run's number, and ends the run once."""
    nothing = await two.parts[0].moment()
    stop = two.stop(2)
    mark, lease = await _stopped(two, stop)
    await _go_back(two, nothing if has_lost_all else None, mark)
    batch = replace(two.batch(0, 2), start=2, next=3, records=[stop])
    if has_lost_all:
        again = await two.parts[0].coordinator.enroll(two.batch(0, 2))
        assert {stamp.generation for stamp in again.stamps.values()} == {None}
    assert (await two.parts[0].coordinator.enroll(batch)).note is None
    while await two.tell() > 1:
        pass
    streams = Streams(redis, two.parts[0].keys, "reader")
    (action,) = await streams.actions(count=10, block_ms=0)
    assert (action.name, action.run) == ("stop", 1)
    await _settle(two, lease)
    await two.tell()
    (ended,) = [one for one in await _told(two, redis) if one.kind != "crawl_started"]
    assert (ended.kind, ended.run, ended.counters["done"]) == ("crawl_stopped", 1, 1)
    assert await redis.keys("*closing*") == []


async def test_what_was_asked_long_ago_is_not_answered_again(two: Two, redis: Redis) -> None:
    """A coordinator that has lost all learns again of a stop and a pause, and reports to no one."""
    nothing = await two.parts[0].moment()
    mark, _ = await _stopped(two, two.stop(2))
    await _go_back(two, nothing, mark)
    pause = replace(two.stop(3), name="pause", request=b"")
    records = [*two.records, replace(two.stop(2), request=b""), pause]
    batch = replace(two.batch(0, 2), start=0, next=4, records=records)
    assert (await two.parts[0].coordinator.enroll(batch)).note is None
    while await two.tell() > 1:
        pass
    assert not await Streams(redis, two.parts[0].keys, "reader").actions(count=10, block_ms=0)


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_partition_that_was_lost_begins_as_after_a_restart(
    redis: Redis, *, is_lost: bool
) -> None:
    """The latest requests to its domains are unknown; to those of a new one there were none."""
    await redis.flushdb()
    scripts = Scripts(redis, Partitions("cs", 2).keys(1))
    await create_frontier(scripts, Layout(partitions=2), is_lost=is_lost)
    await scripts.run("look", b"\x91\x90")
    restart = await redis.hget(scripts.keys.meta(), "restart")
    assert restart is not None
    assert (int(float(restart)) > 0) == is_lost
