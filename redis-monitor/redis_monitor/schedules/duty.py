"""The duty of each redis-monitor: every second, what is due is fed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.liveness import Liveness
from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import Out
from crawlstream.frontier.queries import FrontierQueries
from crawlstream.frontier.schedules import DueSchedules, Schedules
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.recurring.schedule import Fired, ScheduleState, Skip, Turn
from crawlstream.model.state import CrawlState
from crawlstream.wire import requests, schedules
from redis_monitor.metrics import (
    SCHEDULE_FIRES,
    SCHEDULE_LATE,
    SCHEDULES,
    SCHEDULES_SKIPPING,
)
from redis_monitor.schedules.plan import Plan, plan

EVERY_S = 1.0
AT_ONCE = 20
"""Schedules that are served together: a thousand seeds each are some MB."""

AWAITED_S = 300
"""So long seeds that were fed are waited for: some may have been rejected, and never come."""

States = Mapping[CrawlKey, CrawlState]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Firing:
    """A firing, and what goes before its seeds."""

    state: ScheduleState
    plan: Plan
    at: int
    crawl: CrawlKey
    stops: CrawlKey | None
    """The crawl of an earlier firing that is stopped first."""


class ScheduleDuty:
    """Fires what is due; safe beside any number of others."""

    def __init__(
        self,
        known: Schedules,
        queries: FrontierQueries,
        *,
        sink: Sink,
        incoming: str,
        name: str,
        liveness: Liveness,
    ) -> None:
        """``name`` is this process' own, ``incoming`` the topic that is fed."""
        self._known = known
        self._queries = queries
        self._sink = sink
        self._incoming = incoming
        self._name = name
        self._liveness = liveness

    async def step(self) -> float:
        """Serve what is due, some at once."""
        found = await self._known.due(self._name, most=AT_ONCE)
        SCHEDULES.set(found.schedules)
        SCHEDULES_SKIPPING.set(found.skipping)
        if found.due:
            await self._serve(found)
        return 0.0 if found.is_more else EVERY_S

    async def _serve(self, found: DueSchedules) -> None:
        plans = [(state, plan(state, found.now)) for state in found.due]
        latest = [
            state.last_crawl
            for state, planned in plans
            if planned.firing is not None and state.last_crawl and state.schedule.overlap != "join"
        ]
        under_way = await self._queries.states(latest) if latest else {}
        turns: list[Turn] = []
        firings: list[Firing] = []
        for state, planned in plans:
            decided = _decide(state, planned, _hindrance(state, under_way, found.now))
            if isinstance(decided, Firing):
                firings.append(decided)
            else:
                turns.append(decided)
        turns += await self._fire(firings)
        for turn, is_told in zip(turns, await asyncio.gather(*map(self._done, turns)), strict=True):
            if is_told:
                _tell(turn)

    async def _done(self, turn: Turn) -> bool:
        return await self._liveness.retry(partial(self._known.done, turn))

    async def _fire(self, firings: Sequence[Firing]) -> list[Turn]:
        """Feed the seeds; answers what became of firings that nobody else has ended."""
        ours = await asyncio.gather(*map(self._begin, firings))
        begun = [firing for firing, is_ours in zip(firings, ours, strict=True) if is_ours]
        records = [record for firing in begun for record in self._records(firing)]
        if records:
            failpoint("before_fire")
            await self._liveness.retry(partial(self._sink.send, records))
            failpoint("after_fire")
        return [_fired(firing) for firing in begun]

    async def _begin(self, firing: Firing) -> bool:
        stops = firing.stops is not None
        begin = partial(self._known.begin, firing.state, firing.at, stops=stops)
        return await self._liveness.retry(begin)

    def _records(self, firing: Firing) -> list[Out]:
        """A stop first, if there is one, then the seeds: all have the key of their crawl."""
        schedule, at = firing.state.schedule, firing.at
        key = requests.key_of_fields({"appid": schedule.appid, "crawlid": firing.crawl.crawlid})
        seeds = [Out(self._incoming, seed, key) for seed in schedules.encode_seeds(schedule, at)]
        if firing.stops is None:
            return seeds
        stop = schedules.encode_stop(schedule, at, firing.stops)
        return [Out(self._incoming, stop, requests.key_of(stop)), *seeds]


def _hindrance(state: ScheduleState, under_way: States, now: int) -> str:
    """Why the crawl of the last firing is not over, as a reason to skip; "" if it is."""
    before = under_way.get(state.last_crawl) if state.last_crawl else None
    if before is not None and before.is_under_way:
        return "crawl_paused" if before.state == "paused" else "running"
    is_awaited = state.is_awaited and now < state.fed + AWAITED_S
    return "running" if is_awaited and state.schedule.overlap != "join" else ""


def _decide(state: ScheduleState, planned: Plan, hindrance: str) -> Firing | Turn:
    """A firing, or what is told of one that does not happen.

    One that has begun goes on as it was decided: the crawl under way may be its own.
    """
    turn = Turn(state=state, last=planned.last, due=planned.due, skips=planned.skips)
    if planned.firing is None:
        return turn
    at, crawl = planned.firing, schedules.crawl_at(state.schedule, planned.firing)
    if state.begun == at:
        stops = state.last_crawl if state.is_stopping else None
    elif not hindrance:
        stops = None
    elif state.schedule.overlap == "skip":
        skips = [*planned.skips, Skip(at, hindrance)]
        return replace(turn, skips=skips, is_asked=planned.is_asked)
    else:
        stops = state.last_crawl
    return Firing(state, planned, at, crawl, stops)


def _fired(firing: Firing) -> Turn:
    planned, seeds = firing.plan, len(firing.state.schedule.seeds)
    return Turn(
        state=firing.state,
        last=planned.last,
        due=planned.due,
        fired=Fired(firing.at, firing.crawl, seeds, planned.late_s),
        skips=planned.skips,
        is_asked=planned.is_asked,
    )


def _tell(turn: Turn) -> None:
    schedule = turn.state.schedule
    names = {"appid": schedule.appid, "schedule": schedule.name}
    for skip in turn.skips:
        outcome = "missed" if skip.reason in {"missed", "late"} else "skipped"
        SCHEDULE_FIRES.labels(outcome).inc(skip.count)
        log.warning("fire", outcome=skip.reason, at=skip.at, count=skip.count, **names)
    if turn.fired:
        SCHEDULE_FIRES.labels("fired").inc()
        SCHEDULE_LATE.observe(turn.fired.late_s)
        told = {"at": turn.fired.at, "seeds": turn.fired.seeds, "late_s": turn.fired.late_s}
        log.info("fire", outcome="fired", **told, **names)
