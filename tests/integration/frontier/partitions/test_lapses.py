"""Ends by the clock of a coordinator: runs that expire, and the duplicate filters of crawls."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from crawlstream.errors import OutdatedStamp
from crawlstream.model.effects import OutboxRecord, Outcome, Seed, Settle
from crawlstream.model.partitions.messages import Question, ToNote, survivors
from crawlstream_frontier.partition_calls.coordinator import Coordinator
from crawlstream_frontier.partitions.confirm import is_over, summed
from crawlstream_frontier.streams import Streams
from support.frontier.time import Times, timed
from support.partitions.planting import Bug, assert_found
from support.partitions.real import LINKS
from support.partitions.two import Two, open_two
from support.waiting import wait_until

pytest_plugins = ("support.frontier.fixtures",)
pytestmark = pytest.mark.usefixtures("still")

DEDUPE_MS, DAY_MS = 60_000, 86_400_000
PAST, FUTURE = 1, int(time.time()) + 86_400


@pytest.fixture
async def two(redis: Redis) -> Two:
    """Two partitions with nothing in them."""
    return await open_two(redis)


def expiring(two: Two, at: int, *more: int) -> None:
    """Have the seeds of a cluster expire, each at a time of its own if there are more."""
    times = [at, *more, *[at] * len(two.records)]
    two.records = [
        replace(seed, expires=expires) for seed, expires in zip(seeds_of(two), times, strict=False)
    ]


def seeds_of(two: Two) -> list[Seed]:
    """Contexts of a cluster."""
    return [record for record in two.records if isinstance(record, Seed)]


async def overdue(two: Two) -> Sequence[ToNote]:
    """Ends that the coordinator's clock makes, a second after its last seed."""
    return (await two.parts[0].coordinator.overdue(0, DEDUPE_MS)).to_note


async def endings(two: Two, redis: Redis) -> list[OutboxRecord]:
    """Ends of runs that the coordinator has published."""
    streams = Streams(redis, two.parts[0].keys, "reader")
    owed = await streams.records(count=100, block_ms=0)
    return [one for one in owed if isinstance(one, OutboxRecord) and one.kind != "crawl_started"]


async def test_a_run_expires_everywhere_and_is_told_once(two: Two, redis: Redis) -> None:
    """Queued pages are counted as expired where they wait; pages in flight may still end well."""
    expiring(two, int(time.time()) + 2)
    await two.feed()
    for place in (0, 1):
        await two.confirm(place)
    found = await two.lease(0)
    assert found
    assert await overdue(two) == []
    (note,) = await wait_until(lambda: overdue(two))
    assert await two.lease(1) is None
    assert (note.how, note.run, note.generation, note.covers) == (
        "expired",
        1,
        1,
        {"incoming:0": 2},
    )
    assert (await two.parts[0].coordinator.quiet(0))[0] == []
    assert await two.parts[0].coordinator.lapse(note)
    assert not await two.parts[0].coordinator.lapse(note)
    assert await overdue(two) == []
    assert await two.tell() == 1
    assert await two.lease(1) is None
    assert await endings(two, redis) == []
    settle = Settle(token=found[0].lease.token, outcome=Outcome.DONE, reason="2xx")
    assert not (await found[0].session.exchange(settles=[settle])).stale
    assert await two.tell() == 0
    (ended,) = await endings(two, redis)
    assert (ended.kind, ended.run, ended.generation) == ("crawl_expired", 1, 0)
    counters = [ended.counters[name] for name in ("admitted", "done", "expired", "stopped")]
    assert counters == [2, 1, 1, 0]
    states = [await part.frontier.queries.crawl_state(two.crawl) for part in two.parts]
    assert [(one.state, one.expired, one.done) for one in states if one] == [
        ("expiring", 0, 1),
        ("expiring", 1, 0),
    ]


async def test_a_seed_does_not_prolong_what_is_over(two: Two) -> None:
    """It opens the next run, of another generation, once Kafka has that the first one ends."""
    expiring(two, PAST, 0)
    coordinator = two.parts[0].coordinator
    assert (await coordinator.enroll(two.batch(0, 1))).note is None
    waiting = await coordinator.enroll(two.batch(1, 2))
    assert waiting.note is not None
    assert (waiting.note.offset, waiting.note.how) == (1, "expired")
    assert not waiting.stamps
    assert [note.generation for note in await overdue(two)] == [1]
    stamps = (await two.enroll(two.batch(1, 2))).stamps
    assert (stamps[1].generation, stamps[1].run) == (1, 2)
    again = (await coordinator.enroll(two.batch(0, 2))).stamps
    assert [again[n].generation for n in (0, 1)] == [None, 1]


async def test_a_coordinator_whose_clock_is_briefly_ahead_ends_no_run(redis: Redis) -> None:
    """It ends them after a minute if its clock is still ahead; meanwhile partitions lease."""
    times = Times()
    async with timed(redis, times) as client:
        two = await open_two(client)
        expiring(two, int((times.now + times.ahead) / 1000) + 3_600)
        await two.feed()
        await two.confirm(0)
        times.ahead += DAY_MS
        to_note, next_ms = await two.parts[0].coordinator.overdue(0, DEDUPE_MS)
        assert (to_note, next_ms) == ([], 60_000)
        assert await two.lease(0)
        for passes_ms, ends in ((59_999, []), (1, ["expired"])):
            await client.hincrby(two.parts[0].keys.meta(), "clock", passes_ms)
            assert [note.how for note in await overdue(two)] == ends


async def test_the_latest_seed_says_when_a_run_expires(two: Two, redis: Redis) -> None:
    """Applies the time of the latest record; an expired seed joins the run that it finds."""
    expiring(two, PAST, FUTURE)
    first, second = seeds_of(two)
    two.records = [
        replace(first, timestamp_ms=9),
        replace(second, timestamp_ms=8, expires=PAST),
        replace(second, offset=2, timestamp_ms=7, expires=FUTURE),
    ]
    coordinator = two.parts[0].coordinator
    assert (await coordinator.enroll(two.batch(0, 2))).note is None
    assert [note.run for note in await overdue(two)] == [1]
    two = await open_two(redis)
    expiring(two, FUTURE, 0)
    await two.feed()
    assert await overdue(two) == []
    for place in (0, 1):
        await two.confirm(place)
    states = [await part.frontier.queries.crawl_state(two.crawl) for part in two.parts]
    assert [one.expires for one in states if one] == [FUTURE, FUTURE]


async def test_a_seed_with_more_time_is_heard_of_everywhere(two: Two) -> None:
    """Partitions that lease nothing any more by their own clocks go on."""
    now = int(time.time())
    expiring(two, now + 2, FUTURE)
    coordinator, other = two.parts[0].coordinator, two.parts[1]
    first, second = seeds_of(two)
    stamps = dict((await coordinator.enroll(two.batch(0, 1))).stamps)
    moved = replace(first, domain=second.domain)
    await other.reading.take(replace(two.batch(0, 1), records=[moved]), stamps)
    await two.confirm(1)
    (await coordinator.enroll(two.batch(1, 2)))
    await wait_until(lambda: time.time() > now + 2)
    await other.frontier.session("nobody", "link").exchange(want=10)
    assert await overdue(two) == []
    assert {tell.partition for tell in await coordinator.changes()} == {0, 1}
    assert await two.tell() == 0
    assert await two.lease(1) is None
    await two.confirm(1)
    await other.revisit()
    await other.advance()
    assert await two.lease(1) is not None


async def test_an_expiry_that_the_coordinator_forgets_is_restored(two: Two, redis: Redis) -> None:
    """Kafka has it; what an earlier life notes behind a later one does not count."""
    expiring(two, PAST)
    await two.feed()
    part, coordinator = two.parts[0], two.parts[0].coordinator
    moment = await part.moment()
    (note,) = await overdue(two)
    await part.go_back(moment, 2)
    assert await coordinator.restore(part.epochs[2], survivors([(0, note.mark())]))
    assert not await coordinator.lapse(note)
    (again,) = (await coordinator.enroll(two.batch(1, 2))).stamps.values()
    assert again.generation is None
    assert await two.tell() == 0
    (ended,) = await endings(two, redis)
    assert (ended.kind, ended.counters["expired"]) == ("crawl_expired", 2)


async def test_a_note_of_an_earlier_life_ends_nothing(two: Two) -> None:
    """The coordinator has to repeat it: it is unknown whether Kafka's record counts."""
    expiring(two, PAST, 0)
    await two.parts[0].coordinator.enroll(two.batch(0, 1))
    note = (await two.parts[0].coordinator.enroll(two.batch(1, 2))).note
    assert note is not None
    await two.parts[0].go_back(await two.parts[0].moment(), 2)
    await two.parts[0].coordinator.restore(two.parts[0].epochs[2], [])
    assert not await two.parts[0].coordinator.lapse(note)
    again = (await two.parts[0].coordinator.enroll(two.batch(1, 2), {1: note})).note
    assert again is not None
    assert again.redis_epoch == two.parts[0].epochs[2]


async def test_an_emptied_coordinator_reports_what_kafka_has_of_it(two: Two, redis: Redis) -> None:
    """A run that was noted to be over, but not published, is published; its seeds stay out."""
    part = two.parts[0]
    empty = await part.moment()
    expiring(two, PAST)
    await two.feed()
    (note,) = await overdue(two)
    await part.go_back(empty, 2)
    assert await part.coordinator.restore(part.epochs[2], survivors([(0, note.mark())]))
    assert await two.tell() == 0
    (ended,) = await endings(two, redis)
    assert (ended.kind, ended.run, ended.counters["expired"]) == ("crawl_expired", 1, 1)
    stamps = (await two.enroll(two.batch(0, 2))).stamps
    assert {stamp.generation for stamp in stamps.values()} == {None}


async def test_what_closed_before_it_was_heard_is_counted_as_expired(two: Two) -> None:
    """A page of the next generation shows a partition that the one before is over, not why."""
    expiring(two, PAST, 0)
    coordinator = two.parts[0].coordinator
    stamps = dict((await coordinator.enroll(two.batch(0, 1))).stamps)
    first, second = seeds_of(two)
    moved = replace(first, domain=second.domain)
    await two.parts[1].reading.take(replace(two.batch(0, 1), records=[moved]), stamps)
    stamps = dict((await two.enroll(two.batch(1, 2))).stamps)
    await two.parts[1].reading.take(two.batch(1, 2), stamps)
    (report,) = await two.parts[1].contexts.deliver(
        [tell for tell in await coordinator.changes() if tell.partition == 1]
    )
    assert (report.purged, report.ledger["expired"]) == (1, 1)
    assert "stopped" not in report.ledger


async def test_a_seed_of_a_run_that_has_expired_since_is_stamped_again(two: Two) -> None:
    """A coordinator that went back may give it to the next run; an earlier stamp keeps it."""
    expiring(two, PAST)
    stamps = await two.feed()
    (note,) = await overdue(two)
    await two.parts[0].coordinator.lapse(note)
    await two.tell()
    late = replace(two.batch(1, 2), start=2, next=3, records=[replace(two.records[1], offset=2)])
    with pytest.raises(OutdatedStamp):
        await two.parts[1].reading.take(late, {2: stamps[1]})
    look = await two.parts[1].contexts.look([])
    assert look.positions["incoming", 0] == 2
    await two.parts[1].reading.take(late, dict((await two.enroll(late)).stamps))
    (report,) = (await two.parts[1].contexts.look([two.context(1)])).reports
    assert report.ledger["queued"] == 1


async def test_what_a_crawl_has_seen_is_forgotten_after_its_last_run(two: Two) -> None:
    """Its pages are fetched again; an hour later its coordinator forgets it, and its runs go on."""
    await two.feed()
    coordinator, redis = two.parts[0].coordinator, two.parts[0].redis
    for place in (0, 1):
        await two.confirm(place)
        found = await two.lease(place)
        assert found
        settle = Settle(token=found[0].lease.token, outcome=Outcome.DONE, reason="2xx")
        await found[0].session.exchange(settles=[settle])
    assert await overdue(two) == []
    (run,), _ = await coordinator.quiet(0)
    looks = [await part.contexts.look([run.context]) for part in two.parts]
    assert is_over(run, looks, 0, LINKS, coordinator=0)
    assert await coordinator.finish(run, summed(run, looks, 0))
    assert (await coordinator.runs([two.crawl]))[two.crawl].state == "finished"
    await coordinator.published(two.crawl, 1)
    await two.tell()
    await two.parts[0].advance(DEDUPE_MS - 1)
    assert await overdue(two) == []
    await two.parts[0].advance(2)
    (note,) = await overdue(two)
    assert (note.how, note.run, note.generation) == ("forgotten", 0, 1)
    profiles = two.parts[0].keys.tag + "profiles:*"
    assert await redis.keys(profiles)
    assert await coordinator.lapse(note)
    await coordinator.enroll(two.batch(0, 2))
    assert not await redis.keys(profiles)
    assert await two.tell() == 0
    assert await redis.scard(two.parts[1].keys.tag + "sweep") == 1
    await two.parts[0].advance(3_600_001)
    assert await overdue(two) == []
    assert await redis.hlen(two.parts[0].keys.tag + "reg") == 0
    assert not await redis.exists(two.parts[0].keys.tag + "forgetting")
    again = (await coordinator.enroll(two.batch(0, 2))).stamps
    assert {stamp.generation for stamp in again.values()} == {None}
    two.records.append(replace(two.records[1], offset=2))
    (stamp,) = (await coordinator.enroll(two.batch(2, 3))).stamps.values()
    assert (stamp.generation, stamp.run) == (2, 2)
    (label,) = await coordinator.labels([Question(two.context(0))])
    assert label.state == "dead"


async def ended(two: Two, *, remember: int) -> Coordinator:
    """End the first run of a crawl that keeps its filter for some seconds; its coordinator."""
    two.records = [replace(seed, remember=remember) for seed in seeds_of(two)]
    coordinator = two.parts[0].coordinator
    await coordinator.enroll(two.batch(0, 2))
    (run,), _ = await coordinator.quiet(0)
    assert await coordinator.finish(run, {})
    await coordinator.published(two.crawl, 1)
    return coordinator


async def test_seeds_say_how_long_a_crawl_remembers(two: Two) -> None:
    """Longer than others do, from its end on."""
    await ended(two, remember=3_600)
    await two.parts[0].advance(3_599_000)
    assert await overdue(two) == []
    await two.parts[0].advance(2_000)
    assert [note.how for note in await overdue(two)] == ["forgotten"]


async def test_a_seed_after_the_time_of_what_was_seen_begins_with_nothing(two: Two) -> None:
    """Kafka has it first, also if the coordinator's clock was not looked at in between."""
    coordinator = await ended(two, remember=60)
    await two.parts[0].advance(60_001)
    two.records.append(replace(two.records[1], offset=2))
    note = (await coordinator.enroll(two.batch(2, 3))).note
    assert note is not None
    assert (note.how, note.run, note.generation) == ("forgotten", 0, 1)
    (stamp,) = (await coordinator.enroll(two.batch(2, 3), {2: note})).stamps.values()
    assert (stamp.generation, stamp.run) == (1, 2)


async def test_a_seed_within_the_time_of_what_was_seen_goes_on_with_it(two: Two) -> None:
    """The next run knows the pages of the one before."""
    coordinator = await ended(two, remember=60)
    await two.parts[0].advance(59_000)
    two.records.append(replace(two.records[1], offset=2))
    (stamp,) = (await coordinator.enroll(two.batch(2, 3))).stamps.values()
    assert (stamp.generation, stamp.run) == (0, 2)


BUGS = {
    "a coordinator expires runs by a clock that has leapt": Bug(
        right="due_in(K.expiring, math.floor(trusted(wall) / 1000))",
        wrong="due_in(K.expiring, math.floor(wall / 1000))",
        found_by=test_a_coordinator_whose_clock_is_briefly_ahead_ends_no_run,
    ),
    "a clock that has leapt is trusted": Bug(
        right="at_s * 1000 <= wall and at_s * 1000 <= trusted(wall)",
        wrong="at_s * 1000 <= wall",
        found_by=test_a_coordinator_whose_clock_is_briefly_ahead_ends_no_run,
    ),
    "a seed goes on with what should be forgotten": Bug(
        right="crawl.forget_at and crawl.forget_at <= now then",
        wrong="false then",
        found_by=test_a_seed_after_the_time_of_what_was_seen_begins_with_nothing,
    ),
    "a seed begins with nothing too early": Bug(
        right="crawl.forget_at and crawl.forget_at <= now then",
        wrong="crawl.forget_at then",
        found_by=test_a_seed_within_the_time_of_what_was_seen_goes_on_with_it,
    ),
    "a run ends before Kafka has that its time is over": Bug(
        right="      if not is_noted(crawl, noted) then\n        return note_of_lapsed",
        wrong="      if false then\n        return note_of_lapsed",
        found_by=test_a_seed_does_not_prolong_what_is_over,
    ),
    "a note of another life counts": Bug(
        right="return noted[1] == crawl.g + 1 and noted[2] == life",
        wrong="return noted[1] == crawl.g + 1",
        found_by=test_a_note_of_an_earlier_life_ends_nothing,
    ),
    "what was said to end may go on": Bug(
        right="crawl.lapsed, changed_crawls[name] = how, crawl",
        wrong="changed_crawls[name] = crawl",
        found_by=test_a_run_expires_everywhere_and_is_told_once,
    ),
    "a run whose time is over may finish": Bug(
        right="  if crawl.is_published and not crawl.lapsed then",
        wrong="  if crawl.is_published then",
        found_by=test_a_run_expires_everywhere_and_is_told_once,
    ),
    "what waits is counted as stopped": Bug(
        right="  if c and how == 'expired' then\n    note_expired(c)",
        wrong="  if false then\n    note_expired(c)",
        found_by=test_a_run_expires_everywhere_and_is_told_once,
    ),
    "partitions go by the time that they heard first": Bug(
        right="      if was_open and before ~= at then",
        wrong="      if false and was_open and before ~= at then",
        found_by=test_a_seed_with_more_time_is_heard_of_everywhere,
    ),
    "an emptied coordinator forgets whom it owes an ending": Bug(
        right="    crawl.g, crawl.run, crawl.is_open = generation - 1, run, true",
        wrong="    crawl.g, crawl.run = generation - 1, run",
        found_by=test_an_emptied_coordinator_reports_what_kafka_has_of_it,
    ),
    "a seed is dropped with a run that it may not belong to": Bug(
        right="return state == 'expiring' or state == 'expired'",
        wrong="return false",
        found_by=test_a_seed_of_a_run_that_has_expired_since_is_stamped_again,
    ),
    "a crawl that is forgotten begins anew with its old numbers": Bug(
        right="return { g = tonumber(floors[1] or 0), run",
        wrong="return { g = 0, run",
        found_by=test_what_a_crawl_has_seen_is_forgotten_after_its_last_run,
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_a_bug_is_found(redis: Redis, bug: Bug) -> None:
    """Each of these rules is needed."""
    await assert_found(redis, bug)
