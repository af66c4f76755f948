"""Occasions and schedules at coordinators: of all records that name one, the first takes effect."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.model.effects import Effect, IntakeBatch, OutboxRecord, ScheduleChange
from crawlstream.model.recurring.schedule import Do, Occasion, Schedule
from crawlstream.model.run_marks import RunMark
from crawlstream_frontier.streams import Streams
from support.partitions.planting import Bug, assert_found
from support.partitions.two import Two, open_two

pytest_plugins = ("support.frontier.fixtures",)
pytestmark = pytest.mark.usefixtures("still")

AT = int(time.time())


@pytest.fixture
async def two(redis: Redis) -> Two:
    """Two partitions with nothing in them."""
    return await open_two(redis)


def record(two: Two, offset: int, n: int | None, of: int = 0, **more: object) -> Effect:
    """A seed at an offset, which is one of an occasion; None: of none."""
    occasion = None if n is None else Occasion(schedule="nightly", at=AT, n=n)
    changes: dict[str, Any] = {"offset": offset, "timestamp_ms": offset, **more}
    return replace(two.records[of], occasion=occasion, **changes)


def batch(two: Two, records: Sequence[Effect]) -> IntakeBatch:
    """These, which follow each other."""
    start, end = records[0].offset, records[-1].offset + 1
    return replace(two.batch(0, 1), start=start, next=end, records=records)


async def stamped(two: Two, records: Sequence[Effect]) -> Mapping[int, int | None]:
    """The generation of each seed by offset; None: it does not enter."""
    done = await two.enroll(batch(two, records))
    return {offset: stamp.generation for offset, stamp in done.stamps.items()}


async def test_the_first_of_an_occasion_enters_whoever_asks_again(two: Two) -> None:
    """A repetition is none when a partition goes back, nor when its crawl has other seeds since."""
    records = [record(two, offset, n) for offset, n in enumerate([0, 1, 0, 1, None, 1, 0, 2])]
    expected = {0: 0, 1: 0, 2: None, 3: None, 4: 0, 5: None, 6: None, 7: 0}
    done = await two.enroll(batch(two, records))
    assert done.repeated == {"app:nightly": 4}
    assert {offset: stamp.generation for offset, stamp in done.stamps.items()} == expected
    assert await stamped(two, records) == expected
    for each in records[2:]:
        assert await stamped(two, [each]) == {each.offset: expected[each.offset]}


async def test_a_repetition_opens_no_run(two: Two, redis: Redis) -> None:
    """Opens no run by a repetition, also if its run is over."""
    coordinator = two.parts[0].coordinator
    assert await stamped(two, [record(two, 0, 0)]) == {0: 0}
    (run,), _ = await coordinator.quiet(0)
    assert await coordinator.finish(run, {})
    assert await stamped(two, [record(two, 1, 0)]) == {1: None}
    assert await stamped(two, [record(two, 0, 0), record(two, 1, 0)]) == {0: None, 1: None}
    assert (await coordinator.quiet(0))[0] == []
    owed = await Streams(redis, two.parts[0].keys, "reader").records(count=10, block_ms=0)
    ended = [one for one in owed if isinstance(one, OutboxRecord)][-1]
    assert ended.firing is not None
    assert (ended.firing.schedule, ended.firing.at, len(ended.seen)) == ("nightly", AT, 1)
    part = two.parts[0]
    mark = RunMark(
        crawl=two.crawl, run=1, state="finished", positions={}, firing=ended.firing, seen=ended.seen
    )
    await redis.delete(*await redis.keys(part.keys.tag + "occasion*"))
    await part.frontier.schedules.remind([mark])
    assert await stamped(two, [record(two, 2, 0), record(two, 3, 1)]) == {2: None, 3: 0}


async def test_a_seed_of_the_past_leaves_its_occasion(two: Two) -> None:
    """An emptied coordinator reads it again: it does not enter, nor does its repetition."""
    part = two.parts[0]
    empty = await part.moment()
    assert await stamped(two, [record(two, 0, 0)]) == {0: 0}
    (run,), _ = await part.coordinator.quiet(0)
    await part.coordinator.finish(run, {})
    owed = await Streams(part.redis, part.keys, "reader").records(count=10, block_ms=0)
    ended = [one for one in owed if isinstance(one, OutboxRecord)][-1]
    await part.go_back(empty, 2)
    assert await part.coordinator.restore(part.epochs[2], [two.end_mark(ended)])
    assert await stamped(two, [record(two, 0, 0), record(two, 1, 0)]) == {0: None, 1: None}
    assert (await part.coordinator.quiet(0))[0] == []


async def test_the_stop_of_a_firing_takes_effect_once(two: Two) -> None:
    """Applies the stop of a firing once: a repeated feed does not stop the first one's seeds."""
    occasion = Occasion(schedule="nightly", at=AT, n=999_999)
    stops = [replace(two.stop(n), appid="app", occasion=occasion) for n in (1, 3)]
    assert await stamped(two, [record(two, 0, None)]) == {0: 0}
    assert await stamped(two, [stops[0], record(two, 2, 0)]) == {2: 1}
    assert await stamped(two, [stops[1], record(two, 4, 0)]) == {4: None}
    assert await stamped(two, [record(two, 2, 0)]) == {2: 1}


async def test_a_schedule_is_told_in_partition_0(two: Two) -> None:
    """Applies schedules in partition 0, in record order, once; the reply is in its outbox."""
    schedule = Schedule(appid="app", name="nightly", cron="0 0 * * *", seeds=[{"url": "http://a/"}])
    changes_in_order: tuple[Do, ...] = ("set", "pause")
    changes = [
        ScheduleChange(
            offset=n,
            timestamp_ms=n,
            appid="app",
            name="nightly",
            do=do,
            request=b"{}",
            schedule=schedule if do == "set" else None,
            most=1,
        )
        for n, do in enumerate(changes_in_order)
    ]
    for _ in range(2):
        assert await stamped(two, changes) == {}
    known = await two.parts[0].frontier.schedules.one("app", "nightly")
    assert known is not None
    assert known.is_paused
    actions = await Streams(two.redis, two.parts[0].keys, "reader").actions(count=9, block_ms=0)
    assert [action.outcome for action in actions] == ["set", "paused"]


BUGS = {
    "a repetition is taken by who asks again": Bug(
        right="elseif crawl.is_new or is_passed then",
        wrong="elseif crawl.is_new or is_passed and is_its_turn then",
        found_by=test_the_first_of_an_occasion_enters_whoever_asks_again,
    ),
    "a repetition opens a run": Bug(
        right="    if is_repeated(occasion, n) then\n      if uuid",
        wrong="    if is_repeated(occasion, n) and crawl.is_open then\n      if uuid",
        found_by=test_a_repetition_opens_no_run,
    ),
    "the bit of a stop is set when it is noted": Bug(
        right="    if to_note then\n      return to_note\n    elseif crawl and occasion ~= '' then",
        wrong="    if crawl and occasion ~= '' then\n      note_occasion(occasion, n)\n    end\n"
        "    if to_note then\n      return to_note\n    elseif false then",
        found_by=test_the_stop_of_a_firing_takes_effect_once,
    ),
    "a seed of the past leaves no bit": Bug(
        right="      if is_its_turn and record[9] ~= '' then",
        wrong="      if false and record[9] ~= '' then",
        found_by=test_a_seed_of_the_past_leaves_its_occasion,
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_a_bug_is_found(redis: Redis, bug: Bug) -> None:
    """Each of these rules is needed."""
    await assert_found(redis, bug)
