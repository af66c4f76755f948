"""Schedules in the frontier: commands of clients, firings by redis-monitors, published records."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from crawlstream.model.effects import OutboxSchedule
from crawlstream.model.recurring.schedule import (
    MOST_SEEDS,
    STOP_NUMBER,
    Do,
    Fired,
    Occasion,
    Schedule,
    ScheduleState,
    Skip,
    Turn,
)
from crawlstream_frontier import schedules as frontier_schedules
from support.frontier.bench import CRAWL, KEYS, Bench

pytest_plugins = ["support.frontier.fixtures"]

NIGHTLY = Schedule(
    appid="app",
    name="nightly",
    cron="30 2 * * *",
    zone="Europe/Berlin",
    crawl={"crawlid": "crawl"},
    seeds=[{"url": "http://a.com/"}],
)
AT = int(time.time())
FED = Fired(AT, CRAWL, 1, 0, 0)


async def say(bench: Bench, do: Do, schedule: Schedule = NIGHTLY, most: int = 10) -> str:
    """Feed a request about a schedule; what redis-monitor is to answer."""
    await bench.feed.put(bench.feed.schedule(do, schedule, most=most))
    (action,) = await bench.reader.actions(count=10, block_ms=0)
    await bench.reader.answered([action.id])
    return action.outcome


async def state(bench: Bench, schedule: Schedule = NIGHTLY) -> ScheduleState:
    """A schedule that there is."""
    found = await bench.frontier.schedules.one(*schedule.key)
    assert found is not None
    return found


async def due(bench: Bench, by: str = "me") -> list[str]:
    """Names of what is due."""
    found = await bench.frontier.schedules.due(by, most=10)
    return [one.schedule.name for one in found.due]


async def told(bench: Bench) -> list[OutboxSchedule]:
    """Outbox records of schedules; this publishes them."""
    owed = await bench.reader.records(count=100, block_ms=0)
    await bench.reader.published([one.id for one in owed])
    return [one for one in owed if isinstance(one, OutboxSchedule)]


def turn(of: ScheduleState, **what: object) -> Turn:
    """It was dealt with, and is looked at again far in the future."""
    values: dict[str, object] = {"last": AT, "due": 4_000_000_000, **what}
    return Turn(state=of, **values)  # type: ignore[arg-type]


async def test_it_is_kept_as_it_was_set(bench: Bench) -> None:
    """Keeps all of a schedule, and fires it after the time at which it took effect."""
    assert await say(bench, "set") == "set"
    found = await state(bench)
    assert found.schedule == NIGHTLY
    assert abs(found.since - time.time()) < 60
    assert await bench.frontier.schedules.all("app") == [found]
    assert await bench.frontier.schedules.all("another") == []


async def test_set_again_it_goes_on(bench: Bench) -> None:
    """It is replaced; how far it has come, and whether it is paused, stays."""
    await say(bench, "set")
    await say(bench, "pause")
    assert await bench.frontier.schedules.done(turn(await state(bench), fired=FED))
    assert await say(bench, "set", replace(NIGHTLY, cron="0 4 * * *")) == "replaced"
    found = await state(bench)
    assert (found.schedule.cron, found.is_paused, found.last, found.fired) == (
        *("0 4 * * *", True),
        *(AT, 1),
    )
    assert await due(bench) == ["nightly"]


async def test_there_is_a_limit(bench: Bench) -> None:
    """A schedule beyond the limit is refused; an existing one may still be replaced."""
    assert await say(bench, "set", most=1) == "set"
    assert await say(bench, "set", replace(NIGHTLY, name="other"), most=1) == "too_many"
    assert await say(bench, "set", most=1) == "replaced"
    assert await say(bench, "set", replace(NIGHTLY, name="other"), most=2) == "set"


@pytest.mark.parametrize("do", ["remove", "pause", "resume", "fire", "show"])
async def test_what_is_unknown_stays_so(bench: Bench, do: Do) -> None:
    """Creates nothing when unknown schedules are requested."""
    assert await say(bench, do) == "unknown"
    assert await bench.frontier.schedules.one(*NIGHTLY.key) is None
    assert await told(bench) == []


async def test_removed_it_is_gone(bench: Bench) -> None:
    """It is not due any more; Kafka has the removal; its keys end."""
    await say(bench, "set")
    await told(bench)
    assert await say(bench, "remove") == "removed"
    assert await due(bench) == []
    (owed,) = await told(bench)
    assert (owed.kind, owed.mark.name) == ("schedule_removed", "nightly")
    assert owed.mark.removed_ms
    assert await bench.redis.ttl(KEYS.schedule("app:nightly")) > 0
    assert await say(bench, "set") == "set"
    assert await bench.redis.ttl(KEYS.schedule("app:nightly")) == -1


async def test_one_looks_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A firing lent to one redis-monitor goes to no other, until its time is over."""
    await say(bench, "set")
    monkeypatch.setattr(frontier_schedules, "CLAIM_MS", 300)
    assert await due(bench, "a") == ["nightly"]
    assert await due(bench, "b") == []
    assert await due(bench, "a") == ["nightly"]
    await asyncio.sleep(0.35)
    assert await due(bench, "b") == ["nightly"]


async def test_it_is_told_once(bench: Bench) -> None:
    """Two that fed the same firing: one of them publishes, and the totals count one."""
    await say(bench, "set")
    await told(bench)
    before = await state(bench)
    schedules = bench.frontier.schedules
    assert await schedules.done(turn(before, fired=FED, skips=[Skip(AT - 60, "missed", 2)]))
    assert not await schedules.done(turn(before, fired=FED))
    skipped, fired = await told(bench)
    assert skipped.event is not None
    assert fired.event is not None
    assert (skipped.event.reason, skipped.event.count, skipped.event.crawl) == ("missed", 2, None)
    assert (fired.event.at, fired.event.seeds, fired.event.crawl) == (AT, 1, CRAWL)
    assert (fired.mark.last, fired.mark.last_crawl) == (AT, CRAWL)
    after = await state(bench)
    assert (after.fired, after.skipped, after.skips, after.fired_at) == (1, 2, 0, AT)
    assert await due(bench) == []


async def test_a_change_meanwhile_is_looked_at_again(bench: Bench) -> None:
    """The firing is published all the same; the schedule is due at once, for the new times."""
    await say(bench, "set")
    before = await state(bench)
    await say(bench, "set", replace(NIGHTLY, cron="0 4 * * *"))
    assert await bench.frontier.schedules.done(turn(before, fired=FED))
    assert await due(bench) == ["nightly"]
    assert (await state(bench)).schedule.cron == "0 4 * * *"


async def test_removed_meanwhile_it_does_not_come_back(bench: Bench) -> None:
    """Does not restore a removed schedule by a firing that is in progress or begins."""
    await say(bench, "set")
    before = await state(bench)
    await say(bench, "remove")
    assert await bench.frontier.schedules.begin(before, AT, stops=False) is None
    assert not await bench.frontier.schedules.done(turn(before, fired=FED))
    assert await bench.frontier.schedules.all() == []


async def test_whoever_goes_on_knows_how_it_began(bench: Bench) -> None:
    """Restores a firing that has begun; one that has ended cannot begin again."""
    await say(bench, "set")
    before = await state(bench)
    assert await bench.frontier.schedules.begin(before, AT, stops=True) == 0
    begun = await state(bench)
    assert (begun.begun, begun.is_stopping) == (AT, True)
    assert await bench.frontier.schedules.done(turn(begun, fired=FED))
    after = await state(bench)
    assert (after.begun, after.is_stopping) == (0, False)
    assert await bench.frontier.schedules.begin(before, AT, stops=True) is None


async def test_seeds_that_change_while_they_are_fed_are_others(bench: Bench) -> None:
    """They get numbers of their own; the next firing begins with 0 again."""
    await say(bench, "set")
    before, schedules = await state(bench), bench.frontier.schedules

    async def begin(at: int, content: str) -> int | None:
        return await schedules.begin(before, at, stops=False, content=content)

    assert [await begin(AT, "a") for _ in range(2)] == [0, 0]
    assert [await begin(AT, "b") for _ in range(2)] == [MOST_SEEDS, MOST_SEEDS]
    assert await begin(AT, "a") == 2 * MOST_SEEDS
    for number in range(20):
        latest = await begin(AT, str(number))
    assert latest is not None
    assert latest + MOST_SEEDS <= STOP_NUMBER
    assert await begin(AT + 60, "c") == 0
    assert await schedules.done(turn(before, fired=FED))
    assert await schedules.begin(await state(bench), AT + 60, stops=False, content="d") == 0


async def test_a_skip_tells_why(bench: Bench) -> None:
    """Reports why a firing was skipped, with its event, until the next skip."""
    await say(bench, "set")
    await told(bench)
    skips = [Skip(AT, "no_seeds", detail="line 3: not JSON")]
    assert await bench.frontier.schedules.done(turn(await state(bench), skips=skips))
    (owed,) = await told(bench)
    assert owed.event is not None
    assert (owed.event.reason, owed.event.detail) == ("no_seeds", "line 3: not JSON")
    assert (await state(bench)).detail == "line 3: not JSON"
    late = turn(await state(bench), last=AT + 1, skips=[Skip(AT + 1, "late")])
    assert await bench.frontier.schedules.done(late)
    assert (await state(bench)).detail == ""


async def test_seeds_are_awaited_by_the_number_of_the_last(bench: Bench) -> None:
    """Awaits seeds until intake has read the last number, whichever numbers they have."""
    await say(bench, "set")
    fired = Fired(AT, CRAWL, 2, 0, MOST_SEEDS + 1)
    assert await bench.frontier.schedules.done(turn(await state(bench), fired=fired))
    for number in range(MOST_SEEDS, MOST_SEEDS + 2):
        await say(bench, "fire")
        (found,) = (await bench.frontier.schedules.due("me", most=1)).due
        assert found.is_awaited
        await bench.feed.put(bench.feed.seed("a.com/", occasion=Occasion("nightly", AT, number)))
    await bench.frontier.schedules.due("me", most=1)
    assert not (await state(bench)).is_awaited


async def test_a_firing_that_was_asked_for_comes_once(bench: Bench) -> None:
    """Requested again before it happens, it is skipped; its time is later than all before."""
    ahead = int(time.time()) + 100
    await say(bench, "set")
    assert await bench.frontier.schedules.done(turn(await state(bench), last=ahead))
    assert await say(bench, "fire") == "fires"
    asked = await state(bench)
    assert asked.fire == ahead + 1
    await told(bench)
    assert [await say(bench, "fire") for _ in range(3)] == ["pending"] * 3
    after, events = await state(bench), [one.event for one in await told(bench)]
    assert (after.fire, after.skipped, after.skips) == (asked.fire, 3, 0)
    assert [event and (event.reason, event.count) for event in events] == [("pending", 1)] * 3
    assert len({event and event.at for event in events}) == 3, "each has a second of its own"
    assert await due(bench) == ["nightly"]
    done = turn(asked, last=asked.fire, fired=replace(FED, at=asked.fire), is_asked=True)
    assert await bench.frontier.schedules.done(done)
    assert not await bench.frontier.schedules.done(done)
    assert (await state(bench)).fire == 0


async def test_a_schedule_that_was_removed_and_set_again_fires_at_a_new_time(bench: Bench) -> None:
    """A second names one firing, although the schedule has nothing else of its predecessor."""
    ahead = int(time.time()) + 100
    await say(bench, "set")
    assert await bench.frontier.schedules.done(turn(await state(bench), last=ahead, fired=FED))
    await say(bench, "remove")
    await say(bench, "set")
    assert await say(bench, "fire") == "fires"
    found = await state(bench)
    assert (found.fire, found.fired, found.last_crawl) == (ahead + 1, 0, None)


async def test_asked_for_while_it_fires_it_fires_again(bench: Bench) -> None:
    """A firing of its own time does not stand for one that was asked for later."""
    await say(bench, "set")
    before = await state(bench)
    await say(bench, "fire")
    asked = await state(bench)
    assert await bench.frontier.schedules.done(turn(before, last=asked.fire - 1, fired=FED))
    assert (await state(bench)).fire == asked.fire
    assert await due(bench) == ["nightly"]


async def test_three_skips_in_a_row_are_seen(bench: Bench) -> None:
    """Skips during a pause do not count; a firing ends the row."""
    await say(bench, "set")
    schedules = bench.frontier.schedules

    async def skip(at: int, reason: str, count: int = 1) -> int:
        skips = [Skip(at, reason, count)]
        assert await schedules.done(turn(await state(bench), last=at, skips=skips))
        return (await schedules.due("me", most=10)).skipping

    assert await skip(AT, "paused", 5) == 0
    assert await skip(AT + 1, "running") == 0
    assert await skip(AT + 2, "crawl_paused", 2) == 1
    found = await state(bench)
    assert (found.skips, found.skipped, found.reason) == (3, 8, "crawl_paused")
    assert await schedules.done(turn(found, last=AT + 3, fired=FED))
    assert (await schedules.due("me", most=10)).skipping == 0


async def test_its_end_is_not_looked_at(bench: Bench) -> None:
    """A schedule that never fires again is still there, and may be fired by hand."""
    await say(bench, "set")
    assert await bench.frontier.schedules.done(turn(await state(bench), due=-1))
    assert (await state(bench)).due == -1
    assert await due(bench) == []
    await say(bench, "fire")
    assert await due(bench) == ["nightly"]


async def test_repetitions_are_counted_with_it(bench: Bench) -> None:
    """Counts repetitions with their schedule; an unknown name leaves no key."""
    await say(bench, "set")
    feed = bench.feed
    for name in ("nightly", "nobody"):
        for _ in range(3):
            await feed.put(feed.seed("a.com/", occasion=Occasion(name, AT, 0)))
    assert (await state(bench)).repeated == 2
    assert not await bench.redis.exists(KEYS.schedule("app:nobody"))


async def test_an_empty_redis_is_told_all(bench: Bench) -> None:
    """Definition, pause and how far it has come; then it goes on from there."""
    await say(bench, "set")
    await say(bench, "pause")
    assert await bench.frontier.schedules.done(turn(await state(bench), fired=FED))
    marks = [one.mark for one in await told(bench)]
    before = await state(bench)
    await bench.redis.flushdb()
    marks.sort(key=lambda one: not one.schedule)
    assert await bench.frontier.schedules.reinstate(marks) == 1
    assert await bench.frontier.schedules.reinstate(marks) == 0, "it knows all of this"
    after = await state(bench)
    for name in ("schedule", "version", "is_paused", "since", "last", "last_crawl"):
        assert getattr(after, name) == getattr(before, name), name
    assert await due(bench) == ["nightly"]


async def test_an_older_copy_learns_and_nothing_goes_back(bench: Bench) -> None:
    """Newer data in Redis stay; removed schedules are not there again, in either."""
    await say(bench, "set")
    await say(bench, "set", replace(NIGHTLY, name="gone"))
    old = [one.mark for one in await told(bench)]
    await say(bench, "set", replace(NIGHTLY, cron="0 4 * * *"))
    await say(bench, "remove", replace(NIGHTLY, name="gone"))
    new = [one.mark for one in await told(bench)]
    schedules = bench.frontier.schedules
    assert await schedules.reinstate(old) == 0
    assert [one.schedule.cron for one in await schedules.all()] == ["0 4 * * *"]
    await bench.redis.flushdb()
    await schedules.reinstate(old)
    assert len(await schedules.all()) == 2
    removed = replace(new[1], removed_ms=new[1].removed_ms + 1_000)
    await schedules.reinstate([new[0], removed])
    assert [one.schedule.cron for one in await schedules.all()] == ["0 4 * * *"]


async def test_what_cannot_be_read_holds_up_nobody(bench: Bench) -> None:
    """A definition of another version is left out; the others are found."""
    await say(bench, "set")
    await say(bench, "set", replace(NIGHTLY, name="odd"))
    await bench.redis.hset(KEYS.schedule("app:odd"), "definition", "{}")
    assert await due(bench) == ["nightly"]
    assert [one.schedule.name for one in await bench.frontier.schedules.all()] == ["nightly"]


async def test_schedules_are_looked_at_again_when_the_clock_has_gone_back(bench: Bench) -> None:
    """Redis was a month ahead for one look: its notes and claims of then hold up no process."""
    month_s = 30 * 86_400
    assert await say(bench, "set") == "set"
    field = KEYS.schedule_field(*NIGHTLY.key)
    await bench.redis.zadd(KEYS.schedules(), {field: AT + month_s})
    await bench.redis.hset(
        KEYS.schedule(field), mapping={"by": "other", "by_until": (AT + month_s) * 1000}
    )
    assert await due(bench) == []
    await bench.redis.hset(KEYS.meta(), "schedules_at", (AT + month_s) * 1000)
    assert await due(bench) == ["nightly"]
