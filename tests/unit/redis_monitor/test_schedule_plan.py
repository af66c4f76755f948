"""The next step for a schedule follows from its state and a given clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.recurring.schedule import Schedule, ScheduleState, Skip
from crawlstream.model.recurring.times import (
    cron_problem,
    due_at,
    latest_due,
    smallest_gap_s,
    times_of,
    zone_problem,
)
from redis_monitor.schedules.duty import Firing, _decide, _hindrance
from redis_monitor.schedules.plan import plan

BERLIN = "Europe/Berlin"
MINUTE, HOUR = 60, 3_600
NOON = 1_795_435_200
"""2026-11-23 12:00 UTC."""
CRAWL = CrawlKey("link", "app", "news")


def at(text: str) -> int:
    """Epoch seconds of a time with its offset."""
    return int(datetime.fromisoformat(text).timestamp())


def in_berlin(times: list[int]) -> list[str]:
    """Times as a clock in Berlin shows them."""
    return [datetime.fromtimestamp(time, ZoneInfo(BERLIN)).isoformat() for time in times]


def schedule(cron: str = "0 * * * *", zone: str = "UTC", **more: Any) -> Schedule:
    """Return a schedule of one seed in the crawl ``news``."""
    seeds = [{"url": "http://a.com/"}]
    fields = {"crawl": {"crawlid": "news"}, "seeds": seeds, **more}
    return Schedule(appid="app", name="news", cron=cron, zone=zone, **fields)


def state(told: Schedule | None = None, since: int = NOON - 60, **more: Any) -> ScheduleState:
    """A schedule that was set at a time."""
    return ScheduleState(schedule=told or schedule(), since=since, **more)


@pytest.mark.parametrize(
    ("cron", "after", "times"),
    [
        (
            "30 2 * * *",
            "2026-10-24T12:00+00:00",
            ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
        ),
        # In the second 02:10 of the night: 02:30 has been.
        ("30 2 * * *", "2026-10-25T01:10+00:00", ["2026-10-26T02:30:00+01:00"]),
        (
            "30 2 * * *",
            "2026-03-28T12:00+00:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
        ),
        (
            "30 * * * *",
            "2026-10-25T00:00+00:00",
            [
                *("2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"),
                "2026-10-25T03:30:00+01:00",
            ],
        ),
        (
            "30 * * * *",
            "2026-03-29T00:00+00:00",
            ["2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"],
        ),
    ],
)
def test_both_days_on_which_clocks_are_changed(cron: str, after: str, times: list[str]) -> None:
    """A job of a fixed time fires once; one of every hour fires each hour that there is."""
    found = list(islice(times_of(schedule(cron, BERLIN), at(after)), len(times)))
    assert in_berlin(found) == times


def test_a_night_of_autumn_fires_once_whenever_it_is_looked_at() -> None:
    """Second by second through the hour that comes twice, and never twice the same time."""
    nightly = schedule("30 2 * * *", BERLIN)
    last, fired = at("2026-10-24T12:00+00:00"), []
    for now in range(at("2026-10-25T00:00+00:00"), at("2026-10-25T03:00+00:00"), 97):
        latest = latest_due(nightly, last, now)
        if latest is not None:
            fired.append(latest)
            last = latest
    assert in_berlin(fired) == ["2026-10-25T02:30:00+02:00"]


def test_it_fires_on_time_and_says_when_it_is_next() -> None:
    """Fires on time, not before, and not for a time before it was set."""
    early = plan(state(), NOON - 1)
    assert (early.firing, early.last, early.due) == (None, 0, NOON)
    fires = plan(state(), NOON + 2)
    assert (fires.firing, fires.late_s, fires.last, fires.due) == (NOON, 2, NOON, NOON + HOUR)
    assert plan(state(since=NOON), NOON + 2).firing is None
    assert plan(state(last=NOON), NOON + 2).firing is None


def test_the_latest_that_was_missed_is_made_up_for() -> None:
    """The others are reported as missed, with their number."""
    found = plan(state(), NOON + 3 * HOUR + 100)
    assert found.firing == NOON + 3 * HOUR
    assert found.skips == [Skip(NOON + 2 * HOUR, "missed", 3)]


@pytest.mark.parametrize(("catch_up_s", "late_s", "fires"), [(600, 600, True), (600, 601, False)])
def test_what_is_too_late_does_not_fire(catch_up_s: int, late_s: int, *, fires: bool) -> None:
    """Limited by ``catch_up_s``, and reported."""
    found = plan(state(schedule(catch_up_s=catch_up_s)), NOON + late_s)
    assert (found.firing is not None) == fires
    assert found.last == NOON
    assert [*found.skips] == ([] if fires else [Skip(NOON, "late")])


def test_another_monitor_may_take_over_though_nothing_is_made_up_for() -> None:
    """Half a minute is never late."""
    assert plan(state(schedule(catch_up_s=0)), NOON + 30).firing == NOON
    assert plan(state(schedule(catch_up_s=0)), NOON + 31).firing is None


def test_a_pause_is_told() -> None:
    """All its times, with their number; afterwards it fires at the next."""
    paused = plan(state(is_paused=True), NOON + 2 * HOUR)
    assert (paused.firing, paused.last) == (None, NOON + 2 * HOUR)
    assert [*paused.skips] == [Skip(NOON + 2 * HOUR, "paused", 3)]
    resumed = plan(state(last=paused.last), NOON + 3 * HOUR)
    assert (resumed.firing, resumed.skips) == (NOON + 3 * HOUR, [])


def test_what_was_asked_for_fires_after_what_is_due() -> None:
    """Paused or not, and its own times stay as they are."""
    asked = state(fire=NOON + 5)
    assert plan(asked, NOON + 6).firing == NOON
    then = plan(state(fire=NOON + 5, last=NOON, is_paused=True), NOON + 6)
    assert (then.firing, then.is_asked, then.due) == (NOON + 5, True, NOON + HOUR)


def test_after_its_end_it_does_not_fire() -> None:
    """The last time is at most ``until``; it is not looked at again."""
    ends = schedule(until=NOON)
    found = plan(state(ends), NOON + 30 * MINUTE)
    assert (found.firing, found.due) == (NOON, -1)
    assert plan(state(ends, last=NOON), NOON + 2 * HOUR).due == -1


def test_a_jitter_spreads_and_is_the_same_for_all() -> None:
    """Each firing of each schedule has its own, the same for all processes."""
    spread = schedule("* * * * *", jitter_s=50)
    dues = [due_at(spread, time) - time for time in islice(times_of(spread, NOON), 40)]
    assert min(dues) >= 0
    assert max(dues) <= 50
    assert len(set(dues)) > 10
    first = due_at(spread, NOON)
    assert plan(state(spread), first - 1).firing is None
    assert plan(state(spread), first).firing == NOON


@pytest.mark.parametrize(
    ("overlap", "hindrance", "fires"),
    [
        *(("skip", "", True), ("skip", "running", False), ("skip", "crawl_paused", False)),
        *(("stop", "running", True), ("stop", "", True)),
    ],
)
def test_an_overlap_is_skipped_or_stops(overlap: Any, hindrance: str, *, fires: bool) -> None:
    """The crawl of the last firing is stopped only if it is still running."""
    told = state(schedule(overlap=overlap), last_crawl=CRAWL)
    decided = _decide(told, plan(told, NOON), hindrance)
    assert isinstance(decided, Firing) == fires
    if isinstance(decided, Firing):
        assert decided.stops == (CRAWL if overlap == "stop" and hindrance else None)
    else:
        assert decided.skips == [Skip(NOON, hindrance)]
        assert decided.last == NOON


@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_firing_that_has_begun_goes_on_as_it_began(*, is_stopping: bool) -> None:
    """The crawl that is running may be its own."""
    told = state(last_crawl=CRAWL, begun=NOON, is_stopping=is_stopping)
    decided = _decide(told, plan(told, NOON), "running")
    assert isinstance(decided, Firing)
    assert decided.stops == (CRAWL if is_stopping else None)


@pytest.mark.parametrize("is_paused", [False, True])
def test_what_has_begun_comes_to_its_end_first(*, is_paused: bool) -> None:
    """Ends a begun firing first, however late, unless the schedule was set again."""
    told = state(schedule(catch_up_s=0), since=NOON - 2 * HOUR - 1, begun=NOON, is_paused=is_paused)
    found = plan(told, NOON + 3 * HOUR)
    assert (found.firing, found.last, found.due) == (NOON, NOON, NOON + HOUR)
    assert (found.late_s, found.skips) == (3 * HOUR, [Skip(NOON - HOUR, "missed", 2)])
    after = state(schedule(), last=NOON, begun=NOON)
    assert plan(after, NOON + HOUR).firing == NOON + HOUR
    anew = state(schedule(), since=NOON + 1, begun=NOON)
    assert plan(anew, NOON + 2).firing is None
    asked = state(fire=NOON + 5, begun=NOON + 5, last=NOON, is_paused=is_paused)
    found = plan(asked, NOON + 2 * HOUR)
    assert (found.firing, found.is_asked, found.late_s) == (NOON + 5, True, 0)
    assert found.due == NOON + HOUR


def test_seeds_on_their_way_count_as_under_way() -> None:
    """Counts fed seeds as running for some minutes, as rejected ones never arrive."""
    told = state(last_crawl=CRAWL, is_awaited=True, fed=NOON)
    assert _hindrance(told, {}, NOON + 299) == "running"
    assert _hindrance(told, {}, NOON + 300) == ""
    joins = state(schedule(overlap="join"), last_crawl=CRAWL, is_awaited=True, fed=NOON)
    assert _hindrance(joins, {}, NOON) == ""


@pytest.mark.parametrize(
    ("cron", "problem"),
    [
        ("*/5 * * * *", ""),
        ("0 0 29 2 *", ""),
        ("0 9 * * 1-5", ""),
        ("@daily", "write `0 0 * * *`"),
        ("* * * *", "5 fields"),
        ("*/5 * * * * *", "5 fields"),
        ("0 0 31 2 *", "Bad day-of-month"),
        ("61 * * * *", "Bad minute"),
        ("a b c d e", "Bad minute"),
        ("", "5 fields"),
    ],
)
def test_expressions_are_five_fields(cron: str, problem: str) -> None:
    """An invalid one is reported, with the form to write."""
    told = cron_problem(cron, min_s=60)
    assert (problem in told) if problem else not told
    assert "5 fields" in told or not cron_problem(cron, min_s=1) or problem


def test_gaps_and_zones() -> None:
    """The smallest gap, whatever the day; a zone by its name in the database."""
    assert smallest_gap_s("*/7 * * * *") == 4 * MINUTE
    assert smallest_gap_s("0 0 29 2 *") > 300 * 24 * HOUR
    assert not zone_problem(BERLIN)
    for odd in ("Mars/Base", "../etc/passwd", "\0", "", "Europe/berlin "):
        assert zone_problem(odd), odd


DAY = 24 * HOUR


@pytest.mark.parametrize("name", ["last", "since", "begun", "fire"])
@pytest.mark.parametrize("ahead", [10 * MINUTE, DAY, 400 * DAY])
def test_one_look_at_a_clock_that_was_ahead_silences_nothing(name: str, ahead: int) -> None:
    """Does not believe a time that is still to come, and fires at the next one of its own."""
    told = state(since=NOON - DAY, last=NOON - HOUR)
    ahead_of_time: Any = {name: NOON + ahead}
    told = replace(told, **ahead_of_time)
    first = plan(told, NOON + 1)
    assert first.last <= NOON + 1
    assert NOON < first.due <= NOON + HOUR
    told = replace(told, last=first.last, begun=0, fire=0)
    assert plan(told, NOON + HOUR).firing == NOON + HOUR


def test_times_that_clocks_of_a_failover_differ_by_are_believed() -> None:
    """Fires a time once, though the next Redis is some seconds behind."""
    assert plan(state(last=NOON), NOON - 30).firing is None


@pytest.mark.parametrize("more", [{"begun": NOON}, {"fire": NOON}, {}])
def test_what_is_too_old_for_its_seeds_is_skipped(more: dict[str, int]) -> None:
    """Names as late what would feed seeds that are all refused, begun, asked for or due."""
    told = state(schedule("0 12 23 11 *", catch_up_s=8 * DAY), since=NOON - HOUR, **more)
    late = plan(told, NOON + 7 * DAY + MINUTE)
    assert late.firing is None
    assert [skip.reason for skip in late.skips] == ["late"]
    assert late.last == NOON
