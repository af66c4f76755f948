"""Numbers of crawls that begin after others were forgotten, and of coordinators that lose data.

A name begins above all numbers that any name has had. What partitions have of a crawl is of no use
to a coordinator that begins it again with other ones: they have passed its seeds.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from redis.asyncio import Redis

from crawlstream.model.effects import OutboxRecord, Outcome, Seed, Settle
from crawlstream.model.partitions.messages import CoordinatorMark
from crawlstream_frontier.partitions.confirm import is_over, summed
from crawlstream_frontier.streams import Streams
from support.partitions.planting import Bug, assert_found
from support.partitions.real import LINKS
from support.partitions.two import Two, open_two

pytest_plugins = ("support.frontier.fixtures",)
pytestmark = pytest.mark.usefixtures("still")
GENERATION, RUN = 5, 8
FORGOTTEN = {"generation_floor": GENERATION, "run_floor": RUN - 1}
"""Data that a coordinator has of crawls that it has forgotten."""
DEDUPE_MS = 20_000


@pytest.fixture
async def two(redis: Redis) -> Two:
    """Two partitions with nothing in them."""
    return await open_two(redis)


async def _begin(two: Two) -> list[CoordinatorMark]:
    """Other crawls are forgotten, partitions have all seeds; what Kafka remembers of that."""
    coordinator = two.parts[0]
    two.generation = GENERATION
    await coordinator.redis.hset(coordinator.keys.meta(), mapping=FORGOTTEN)
    done = await coordinator.coordinator.enroll(two.batch(0, 2))
    assert [(one.generation, one.run) for one in done.begun] == [(GENERATION, RUN)]
    assert not (await coordinator.coordinator.enroll(two.batch(0, 2), {}, done.begun)).begun
    await two.feed()
    return [one.mark() for one in done.begun]


async def _read_again(two: Two) -> None:
    stamps = await two.feed()
    assert {(stamp.generation, stamp.run) for stamp in stamps.values()} == {(GENERATION, RUN)}


async def _finish(two: Two, redis: Redis) -> OutboxRecord:
    """Crawl a page in each partition to its end; return the published ending of the run."""
    for place in range(2):
        assert await two.confirm(place) == 1
        found = await two.lease(place)
        assert found
        settle = Settle(token=found[0].lease.token, outcome=Outcome.DONE, reason="2xx")
        assert not (await found[0].session.exchange(settles=[settle])).stale
    (run,), _ = await two.parts[0].coordinator.quiet(0)
    looks = [await part.contexts.look([run.context]) for part in two.parts]
    assert is_over(run, looks, 0, LINKS, coordinator=0)
    assert await two.parts[0].coordinator.finish(run, summed(run, looks, 0))
    owed = await Streams(redis, two.parts[0].keys, "reader").records(count=10, block_ms=0)
    return [one for one in owed if isinstance(one, OutboxRecord)][-1]


async def test_a_crawl_keeps_its_numbers_when_its_coordinator_is_emptied(
    two: Two, redis: Redis
) -> None:
    """Its seeds are where they were, and it ends once, with all pages counted."""
    coordinator, nothing = two.parts[0], await two.parts[0].moment()
    marks = await _begin(two)
    await coordinator.go_back(nothing, 2)
    assert await coordinator.coordinator.restore(coordinator.epochs[2], marks)
    await _read_again(two)
    ended = await _finish(two, redis)
    assert (ended.kind, ended.run, ended.counters["done"]) == ("crawl_finished", RUN, 2)


async def test_a_crawl_keeps_its_numbers_when_its_coordinator_goes_back(
    two: Two, redis: Redis
) -> None:
    """Keeps the numbers of a crawl when its coordinator goes back to before it began."""
    coordinator, before = two.parts[0], await two.parts[0].moment()
    marks = await _begin(two)
    await coordinator.go_back(before, 2)
    await coordinator.redis.hset(
        coordinator.keys.meta(), mapping={"generation_floor": 9, "run_floor": 9}
    )
    assert await coordinator.coordinator.restore(coordinator.epochs[2], marks)
    await _read_again(two)
    assert (await _finish(two, redis)).run == RUN


async def test_a_crawl_is_told_as_begun_until_kafka_has_it_in_this_life(two: Two) -> None:
    """A caller whose answer is of an earlier epoch has to call again."""
    coordinator = two.parts[0]
    first = (await coordinator.coordinator.enroll(two.batch(0, 1))).begun
    assert (await coordinator.coordinator.enroll(two.batch(0, 1))).begun == first
    await coordinator.go_back(None, 2)
    assert await coordinator.coordinator.restore(coordinator.epochs[2], [])
    (again,) = (await coordinator.coordinator.enroll(two.batch(0, 1), {}, first)).begun
    assert again == first[0]._replace(redis_epoch=coordinator.epochs[2])
    assert not (await coordinator.coordinator.enroll(two.batch(0, 1), {}, [again])).begun
    assert not (await coordinator.coordinator.enroll(two.batch(0, 2))).begun


@pytest.mark.parametrize(("remember", "for_ms"), [(None, DEDUPE_MS), (50, 50_000)])
async def test_an_ended_crawl_is_remembered_as_long_as_before(
    two: Two, redis: Redis, remember: int | None, for_ms: int
) -> None:
    """Remembers an ended crawl by the ending in Kafka when its coordinator has lost all."""
    coordinator, nothing = two.parts[0], await two.parts[0].moment()
    seeds = [one for one in two.records if isinstance(one, Seed)]
    two.records[:] = [replace(seed, remember=remember) for seed in seeds]
    marks = await _begin(two)
    marks.append(two.end_mark(await _finish(two, redis)))
    await coordinator.go_back(nothing, 2)
    assert await coordinator.coordinator.restore(coordinator.epochs[2], marks, dedupe_ms=DEDUPE_MS)
    await coordinator.advance(for_ms - 1_000)
    assert not (await coordinator.coordinator.overdue(0, DEDUPE_MS)).to_note
    await coordinator.advance(2_000)
    (note,) = (await coordinator.coordinator.overdue(0, DEDUPE_MS)).to_note
    assert (note.how, note.generation) == ("forgotten", GENERATION + 1)


BUGS = {
    "a coordinator without data begins crawls with other numbers": Bug(
        right="    begin_again(name, generation, run)\n",
        wrong="",
        found_by=test_a_crawl_keeps_its_numbers_when_its_coordinator_is_emptied,
    ),
    "a coordinator that has gone back gives numbers that grew since": Bug(
        right="if crawl.is_new or generation > crawl.g and not crawl.is_open then",
        wrong="if generation > crawl.g and not crawl.is_open then",
        found_by=test_a_crawl_keeps_its_numbers_when_its_coordinator_goes_back,
    ),
    "numbers are said that Kafka does not have": Bug(
        right="crawl.is_unsaid = nil, nil, wall, crawl.is_new or crawl.is_unsaid",
        wrong="crawl.is_unsaid = nil, nil, wall, nil",
        found_by=test_a_crawl_is_told_as_begun_until_kafka_has_it_in_this_life,
    ),
    "Kafka is believed to have what an earlier life has said": Bug(
        right="for i = 2, begun[1] == life and #begun or 0, 2 do",
        wrong="for i = 2, #begun, 2 do",
        found_by=test_a_crawl_is_told_as_begun_until_kafka_has_it_in_this_life,
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_a_bug_is_found(redis: Redis, bug: Bug) -> None:
    """The test that it names fails with it."""
    await assert_found(redis, bug)
