"""Runs over several partitions: when they end, are stopped and steered, and what they leave."""

from __future__ import annotations

from dataclasses import replace

import pytest
from redis.asyncio import Redis

from crawlstream.errors import NotRestored
from crawlstream.model.effects import Command, OutboxRecord, Outcome, Settle
from crawlstream.model.partitions.messages import ToNote
from crawlstream_frontier.codec.link_records import pack_links
from crawlstream_frontier.partitions.confirm import is_over, summed
from crawlstream_frontier.streams import Streams
from support.partitions.planting import Bug, assert_found
from support.partitions.real import LINKS
from support.partitions.two import Two, open_two

pytest_plugins = ("support.frontier.fixtures",)
pytestmark = pytest.mark.usefixtures("still")


@pytest.fixture
async def two(redis: Redis) -> Two:
    """Two partitions with nothing in them."""
    return await open_two(redis)


async def test_a_paused_run_leases_nothing_anywhere(two: Two) -> None:
    """Pause and resume reach a partition by a notification; then it asks, and goes on."""
    await two.feed()
    await two.confirm(1)
    for offset, action in ((2, "pause"), (3, "resume")):
        await _say(two, offset, action)
        await two.tell()
        assert await two.lease(1) is None
        await two.confirm(1)
        await two.parts[1].advance()
        found = await two.lease(1)
        assert (found is not None) == (action == "resume")


async def test_a_reprioritized_run_is_shifted_everywhere(two: Two, redis: Redis) -> None:
    """Shifts a run in all partitions by as much as its best seed moves."""
    await two.feed()
    await _say(two, 2, "reprioritize", priority=90)
    await two.confirm(1)
    assert await redis.hgetall(two.parts[1].keys.tag + "shifts") == {b"1": b"40"}


async def test_a_run_ends_once_with_the_counters_of_all(two: Two, redis: Redis) -> None:
    """The coordinator's outbox has the event; the next run is labelled when Kafka has that."""
    await two.feed()
    for place, part in enumerate(two.parts):
        await two.confirm(place)
        found = await two.lease(place)
        assert found
        settle = Settle(token=found[0].lease.token, outcome=Outcome.DONE, reason="2xx")
        await found[0].session.exchange(settles=[settle])
        assert not (await part.frontier.maintenance.tend()).ended
    coordinator = two.parts[0].coordinator
    (run,), _ = await coordinator.quiet(0)
    looks = [await part.contexts.look([run.context]) for part in two.parts]
    assert is_over(run, looks, 0, LINKS, coordinator=0)
    assert await coordinator.finish(run, summed(run, looks, 0))
    assert not await coordinator.finish(run, summed(run, looks, 0))
    owed = await Streams(redis, two.parts[0].keys, "reader").records(count=10, block_ms=0)
    (started, ended) = [one for one in owed if isinstance(one, OutboxRecord)]
    assert (started.kind, started.run) == ("crawl_started", 1)
    assert (ended.kind, ended.run, ended.reasons["done"]) == ("crawl_finished", 1, {"2xx": 2})
    assert (ended.counters["admitted"], ended.counters["done"]) == (2, 2)
    assert ended.positions == {"incoming:0": 2}
    assert await coordinator.quiet(0) == ([], 0)


async def test_what_comes_during_a_look_keeps_the_run_open(two: Two) -> None:
    """A seed that was enrolled since, or another life of the coordinator: compare and set."""
    coordinator = two.parts[0].coordinator
    await coordinator.enroll(two.batch(0, 1))
    (run,), _ = await coordinator.quiet(0)
    await coordinator.enroll(two.batch(1, 2))
    assert not await coordinator.finish(run, {})
    (run,), _ = await coordinator.quiet(0)
    await two.parts[0].go_back(None, 2)
    assert not await coordinator.finish(run, {})
    assert await coordinator.restore(two.parts[0].epochs[2], [])
    assert not await coordinator.finish(run, {})
    (run,), _ = await coordinator.quiet(0)
    assert await coordinator.finish(run, {})


async def test_a_generation_that_is_over_takes_nothing(two: Two) -> None:
    """Admits neither seeds nor links of a generation that is over, once notified."""
    stamps = await two.feed()
    await two.confirm(0)
    _, origin = await two.page(0)
    stop = two.stop(2)
    batch = replace(two.batch(0, 2), start=2, next=3, records=[stop])
    await two.enroll(batch)
    await two.tell()
    reading = two.parts[1].reading
    done = await reading.apply(two.link_batch(*pack_links(origin, two.links("b"))))
    assert (done.applied, done.ignored, done.admitted) == (0, 1, 0)
    late = replace(two.batch(0, 2), start=2, next=4, records=[replace(two.records[1], offset=3)])
    await reading.take(late, {3: stamps[1]})
    look = await two.parts[1].contexts.look([two.context(0)])
    assert look.reports[0].is_idle
    assert look.positions == {("incoming", 0): 4, (LINKS, 1): 1}
    again = await two.parts[0].coordinator.enroll(two.batch(0, 2))
    assert {stamp.generation for stamp in again.stamps.values()} == {None}


async def test_a_later_generation_ends_the_one_before_it(two: Two) -> None:
    """Ends the generation before, also if its stop is not known yet."""
    await two.feed()
    await two.confirm(1)
    stop = two.stop(2)
    seed = replace(two.records[1], offset=3)
    batch = replace(two.batch(0, 2), start=2, next=4, records=[stop, seed])
    stamps = (await two.enroll(batch)).stamps
    assert (stamps[3].generation, stamps[3].run) == (1, 2)
    taken = await two.parts[1].reading.take(replace(batch, records=[seed]), stamps)
    assert [question.context.generation for question in taken.unconfirmed] == [1]
    assert await two.lease(1) is None
    (report,) = (await two.parts[1].contexts.look([two.context(0)])).reports
    assert report.is_idle
    assert (await two.parts[1].frontier.queries.state()).queued == 1


async def test_what_an_ended_run_has_left_waits_for_the_next(two: Two) -> None:
    """Keeps what an ended run has left for the next one after a coordinator went back."""
    await two.feed()
    await two.confirm(1)
    coordinator = two.parts[0].coordinator
    (run,), _ = await coordinator.quiet(0)
    assert await coordinator.finish(run, {})
    assert await two.tell() == 0
    for _ in range(2):
        assert await two.lease(1) is None
        await two.parts[1].advance()
    await coordinator.published(two.crawl, 1)
    two.records.append(replace(two.records[0], offset=2))
    assert (await coordinator.enroll(two.batch(2, 3))).stamps[2].run == 2
    (left,) = (await two.parts[1].contexts.look([two.context(0)])).reports
    assert (left.is_idle, left.is_leasable) == (False, False)
    assert await two.confirm(1) == 1
    found = await two.lease(1)
    assert found
    assert (found[1], found[0].lease.run) == ("c", 2)
    (report,) = (await two.parts[1].contexts.look([two.context(0)])).reports
    assert (report.ledger["admitted"], report.ledger["held"], report.ledger["queued"]) == (1, 1, 0)


async def test_the_next_run_waits_for_the_ending_of_the_last(two: Two) -> None:
    """Its label is pending, and so the partition asks again."""
    await two.feed()
    coordinator = two.parts[0].coordinator
    (run,), _ = await coordinator.quiet(0)
    assert await coordinator.finish(run, {})
    two.records.append(replace(two.records[1], offset=2))
    stamps = (await coordinator.enroll(two.batch(2, 3))).stamps
    assert stamps[2].run == 2
    await two.parts[1].reading.take(two.batch(2, 3), stamps)
    for is_published in (False, True):
        if is_published:
            await coordinator.published(two.crawl, 1)
        assert await two.confirm(1) == 1
        await two.parts[1].advance()
        found = await two.lease(1)
        assert (found is not None) == is_published
    assert found
    assert found[0].lease.run == 2


async def test_seeds_wait_for_their_grace(two: Two) -> None:
    """A run that has just had a seed is not looked at."""
    await two.feed()
    coordinator = two.parts[0].coordinator
    assert await coordinator.quiet(5_000) == ([], 0)
    await two.parts[0].advance(5_001)
    assert [run.run for run in (await coordinator.quiet(5_000))[0]] == [1]
    assert await coordinator.quiet(5_000, start=1) == ([], 0)


async def test_another_life_is_not_restored_by_an_old_answer(two: Two) -> None:
    """A caller that read Kafka before the coordinator went back once more has read too little."""
    coordinator = two.parts[0].coordinator
    assert not await coordinator.restore(two.parts[0].epochs[1] - 1, [])
    await two.parts[0].go_back(None, 2)
    with pytest.raises(NotRestored) as error:
        await coordinator.enroll(two.batch(0, 2))
    assert error.value.redis_epoch == two.parts[0].epochs[2]
    assert await coordinator.restore(error.value.redis_epoch, [])
    assert len((await coordinator.enroll(two.batch(0, 2))).stamps) == 2


async def test_a_stop_of_a_crawl_that_nobody_knows_changes_nothing(two: Two) -> None:
    """It begins no generation, nor is anybody told: such requests are cheap to send."""
    stop = two.stop(0)
    batch = replace(two.batch(0, 1), records=[stop])
    assert (await two.parts[0].coordinator.enroll(batch)).note is None
    assert await two.parts[0].coordinator.changes() == []


async def _say(two: Two, offset: int, action: str, priority: int | None = None) -> None:
    command = Command(
        offset=offset,
        timestamp_ms=offset,
        name=action,
        request=b"{}",
        crawl=two.crawl,
        priority=priority,
    )
    batch = replace(two.batch(0, 2), start=offset, next=offset + 1, records=[command])
    assert (await two.parts[0].coordinator.enroll(batch)).note is None


async def test_a_stop_is_answered_when_all_know_and_told_when_nothing_is_in_flight(
    two: Two, redis: Redis
) -> None:
    """Pages that waited are counted in the reply, those in flight in the ending."""
    await two.feed()
    await two.confirm(0)
    found = await two.lease(0)
    assert found
    stop = two.stop(2)
    batch = replace(two.batch(0, 2), start=2, next=3, records=[stop])
    coordinator = two.parts[0].coordinator
    note = (await coordinator.enroll(batch)).note
    epoch = two.parts[0].epochs[1]
    assert note == ToNote(two.crawl, 1, "stopped", epoch, offset=2, run=1, covers={"incoming:0": 3})
    assert (await coordinator.enroll(batch, {2: note})).note is None
    streams = Streams(redis, two.parts[0].keys, "reader")
    assert not await streams.actions(count=10, block_ms=0)
    assert [await two.tell(), await two.tell()] == [1, 1]
    (action,) = await streams.actions(count=10, block_ms=0)
    assert (action.name, action.purged, action.run) == ("stop", 1, 1)
    settle = Settle(token=found[0].lease.token, outcome=Outcome.DONE, reason="2xx")
    assert not (await found[0].session.exchange(settles=[settle])).stale
    assert await two.tell() == 0
    owed = await streams.records(count=10, block_ms=0)
    (_, ended) = [one for one in owed if isinstance(one, OutboxRecord)]
    assert (ended.kind, ended.run) == ("crawl_stopped", 1)
    counters = [ended.counters[name] for name in ("admitted", "done", "stopped")]
    assert counters == [2, 1, 1]
    assert await redis.keys("*closing*") == []


async def test_seeds_that_a_late_stop_does_not_mean_enter_the_next_run(two: Two) -> None:
    """They were written after it, and read before it: asked again they enter once."""
    coordinator, redis = two.parts[0].coordinator, two.redis
    for part in two.parts:
        await redis.hset(part.keys.enrolled(), "incoming:1", 0)
        await redis.hset(part.keys.positions(), "incoming:1", 0)
    two.records = [replace(two.records[n], timestamp_ms=at) for n, at in enumerate((5, 9))]
    await two.feed()
    stop = replace(two.stop(0), timestamp_ms=7)
    late = replace(two.batch(0, 1), kafka_partition=1, records=[stop])
    await two.enroll(late)
    await two.tell()
    assert await coordinator.again() == {("incoming", 0): 0}
    for _ in range(2):
        stamps = (await coordinator.enroll(two.batch(0, 2))).stamps
        assert [stamps[n].generation for n in (0, 1)] == [None, 1]
        assert [stamps[n].is_again for n in (0, 1)] == [False, True]
        batch = replace(two.batch(0, 2), records=[two.records[1]])
        await two.parts[1].reading.take(batch, stamps)
    await coordinator.reread(two.batch(0, 2))
    assert await coordinator.again() == {}
    (report,) = (await two.parts[1].contexts.look([two.context(1)])).reports
    assert report.ledger["queued"] == 1


async def test_a_stop_that_is_older_than_all_seeds_means_older_ones_only(two: Two) -> None:
    """The run was fed after it, and read before; what is older and comes now is refused."""
    coordinator = two.parts[0].coordinator
    await two.redis.hset(two.parts[0].keys.enrolled(), "incoming:1", 0)
    two.records = [replace(two.records[n], timestamp_ms=at) for n, at in enumerate((9, 3))]
    await coordinator.enroll(two.batch(0, 1))
    stop = replace(two.stop(0), timestamp_ms=7)
    done = await coordinator.enroll(replace(two.batch(0, 1), kafka_partition=1, records=[stop]))
    assert done.note is None
    assert (await coordinator.runs([two.crawl]))[two.crawl].state == "running"
    late = await coordinator.enroll(two.batch(1, 2))
    assert late.stopped == [1]
    assert late.stamps[1].generation is None


BUGS = {
    "what enters once more does so for all who ask": Bug(
        right="return redis.call('SISMEMBER', K.taken, place .. ' ' .. int(offset)) == 0",
        wrong="return redis.call('SISMEMBER', K.taken, place .. ' ' .. int(offset)) >= 0",
        found_by=test_seeds_that_a_late_stop_does_not_mean_enter_the_next_run,
    ),
    "a late stop takes younger seeds along": Bug(
        right="      owe_again(seeds_of(crawl), name, topic, place, timestamp, K.enrolled)\n",
        wrong="",
        found_by=test_seeds_that_a_late_stop_does_not_mean_enter_the_next_run,
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_a_bug_is_found(redis: Redis, bug: Bug) -> None:
    """Each of these rules is needed."""
    await assert_found(redis, bug)
