"""The duty of each redis-monitor: every second, what is due is fed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice

import structlog

from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.liveness import Liveness
from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import Out
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import DETAIL_LENGTH
from crawlstream.model.recurring.schedule import Fired, ScheduleState, Skip, Turn
from crawlstream.model.state import CrawlState
from crawlstream.store.store import StoreUnavailable
from crawlstream.wire import requests, schedules
from crawlstream_frontier.queries import FrontierQueries
from crawlstream_frontier.schedules import DueSchedules, Schedules
from redis_monitor.metrics import (
    SCHEDULE_FIRES,
    SCHEDULE_LATE,
    SCHEDULES,
    SCHEDULES_SKIPPING,
)
from redis_monitor.schedules.plan import FiringPlan, plan
from redis_monitor.schedules.seed_reader import Feed, NoSeeds, SeedReader

EVERY_S = 1.0
AT_ONCE = 20
"""Schedules that are served together: a thousand seeds each are some MB."""

_BATCH = 1_000
"""Records between two acknowledgements."""
AWAITED_S = 300
"""Seconds to wait for fed seeds: some may have been rejected, and never arrive."""

States = Mapping[CrawlKey, CrawlState]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Firing:
    """A firing, and what goes before its seeds."""

    state: ScheduleState
    plan: FiringPlan
    at: int
    crawl: CrawlKey
    stops: CrawlKey | None
    """The crawl of an earlier firing that is stopped first."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Firing with its seeds, which no other process has completed."""

    firing: Firing
    feed: Feed
    first_number: int

    def turn(self) -> Turn:
        """Return the state of the schedule after its seeds are fed."""
        planned, firing = self.firing.plan, self.firing
        last_number = self.first_number + self.feed.count - 1
        return Turn(
            state=firing.state,
            last=planned.last,
            due=planned.due,
            fired=Fired(firing.at, firing.crawl, self.feed.count, planned.late_s, last_number),
            skips=planned.skips,
            is_asked=planned.is_asked,
        )


class ScheduleDuty:
    """Fires schedules that are due; several instances may run."""

    def __init__(
        self,
        known: Schedules,
        queries: FrontierQueries,
        *,
        sink: Sink,
        incoming: str,
        name: str,
        liveness: Liveness,
        reader: SeedReader,
    ) -> None:
        """``name`` is this process' own, ``incoming`` the topic that is fed."""
        self._known = known
        self._queries = queries
        self._sink = sink
        self._incoming = incoming
        self._name = name
        self._liveness = liveness
        self._reader = reader

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
        """Feed the seeds; return the turns of firings that no other process has completed."""
        found = await asyncio.gather(*map(self._load, firings))
        loaded = [one for one in found if isinstance(one, Loaded)]
        records = chain.from_iterable(map(self._records, loaded))
        if loaded:
            failpoint("before_fire")
            while batch := list(islice(records, _BATCH)):
                await self._liveness.retry(partial(self._sink.send, batch))
                failpoint("amid_fire")
            failpoint("after_fire")
        skipped = [one for one in found if isinstance(one, Turn)]
        return [*(one.turn() for one in loaded), *skipped]

    async def _load(self, firing: Firing) -> Loaded | Turn | None:
        """A firing that may be fed; None: another one has fed it, or its file cannot be read now.

        What is not read stays due, until it is too late.
        """
        schedule = firing.state.schedule
        if await self._is_repeated(firing):
            return _skipped(firing, "repeated")
        try:
            feed = await self._reader.feed_of(schedule)
        except NoSeeds as error:
            return _skipped(firing, "no_seeds", detail=str(error))
        except StoreUnavailable as error:
            log.warning(
                "fire", outcome="unread", error=str(error), appid=schedule.appid, at=firing.at
            )
            return None
        begin = partial(
            self._known.begin,
            firing.state,
            firing.at,
            stops=firing.stops is not None,
            content=feed.digest,
        )
        first_number = await self._liveness.retry(begin)
        return None if first_number is None else Loaded(firing, feed, first_number)

    async def _is_repeated(self, firing: Firing) -> bool:
        """Return whether this firing has happened: its seeds would all be repetitions.

        Only after Redis' clock was set back is a firing not later than the latest one.
        """
        state, at = firing.state, firing.at
        if at > state.fired_at or at == state.begun:
            return False
        has_had = partial(self._known.has_had, state.schedule, at, 0)
        return await self._liveness.retry(has_had)

    def _records(self, loaded: Loaded) -> Iterator[Out]:
        """A stop first, if there is one, then the seeds: all have the key of their crawl."""
        firing = loaded.firing
        schedule, at = firing.state.schedule, firing.at
        if firing.stops is not None:
            stop = schedules.encode_stop(schedule, at, firing.stops)
            yield Out(self._incoming, stop, requests.key_of(stop))
        key = requests.key_of_fields({"appid": schedule.appid, "crawlid": firing.crawl.crawlid})
        seeds = loaded.feed.read()
        first = loaded.first_number
        for seed in schedules.encode_seeds(schedule, at, seeds, first_number=first):
            yield Out(self._incoming, seed, key)


def _hindrance(state: ScheduleState, under_way: States, now: int) -> str:
    """Return why the crawl of the last firing is not over, as a reason to skip; "" if it is."""
    before = under_way.get(state.last_crawl) if state.last_crawl else None
    if before is not None and before.is_under_way:
        return "crawl_paused" if before.state == "paused" else "running"
    is_awaited = state.is_awaited and now < state.fed + AWAITED_S
    return "running" if is_awaited and state.schedule.overlap != "join" else ""


def _decide(state: ScheduleState, planned: FiringPlan, hindrance: str) -> Firing | Turn:
    """Return a firing, or the report of one that does not happen.

    A firing that has begun continues as it was decided: the crawl in progress may be its own.
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


def _skipped(firing: Firing, reason: str, detail: str = "") -> Turn:
    """Return the report of a firing that feeds nothing."""
    planned = firing.plan
    return Turn(
        state=firing.state,
        last=planned.last,
        due=planned.due,
        skips=[*planned.skips, Skip(firing.at, reason, detail=detail[:DETAIL_LENGTH])],
        is_asked=planned.is_asked,
    )


def _tell(turn: Turn) -> None:
    schedule = turn.state.schedule
    names = {"appid": schedule.appid, "schedule": schedule.name}
    for skip in turn.skips:
        outcome = "missed" if skip.reason in {"missed", "late"} else "skipped"
        SCHEDULE_FIRES.labels(outcome).inc(skip.count)
        why = {"error": skip.detail} if skip.detail else {}
        log.warning("fire", outcome=skip.reason, at=skip.at, count=skip.count, **why, **names)
    if turn.fired:
        SCHEDULE_FIRES.labels("fired").inc()
        SCHEDULE_LATE.observe(turn.fired.late_s)
        told = {"at": turn.fired.at, "seeds": turn.fired.seeds, "late_s": turn.fired.late_s}
        log.info("fire", outcome="fired", **told, **names)
