"""The cluster's figures over time: read once for all viewers.

One task queries Redis once a second while there are watchers, otherwise once in ten seconds, so
that a chart has a past when it is opened. Figures that need one query per crawl are read so seldom
that they take at most a twentieth of the time, however many crawls there are.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.errors import CrawlstreamError
from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState, FrontierState
from crawlstream.stats.traffic import Traffic, read_past, read_total
from crawlstream_frontier.queries import FrontierQueries

WATCHED_S, IDLE_S = 1.0, 10.0
"""Seconds between two samples, with and without watchers."""
KEPT_S = 900.0
_RATE_OVER_S = 5.0
"""Seconds of a rate: counters reach Redis once a second, so it is a mean over several."""
_CRAWLS_EVERY_S = 2.0
_PAST_EVERY_S = 15.0
_SHARE_OF_CRAWLS = 0.05
_FRESH_S = 0.5
_SEEN_FROM_BEGIN_S = 2 * IDLE_S
"""Seconds of age below which the chart of a crawl begins with zeros when it is first sampled."""
_MOST_ANSWERS = 100
_MOST_TIMELINES = 500
_MOST_POINTS = 240

Point = Sequence[float | None]
"""Time (epoch s) and values, in the order that the chart names."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """Counters that only grow, at one moment."""

    at: float
    traffic: Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSample:
    """The cluster at one moment."""

    at: float
    lately: Traffic
    """Downloads of the last ``over_s`` seconds."""
    over_s: float
    state: FrontierState

    @property
    def pages_per_s(self) -> float:
        """Return responses per second, whatever their status."""
        return (self.lately.total - self.lately.counts[0]) / self.over_s

    @property
    def point(self) -> Point:
        """Return the sample as a point of the cluster's charts."""
        waiting = self.state.queued + self.state.delayed + self.state.spilled
        return chart_point(self.at, self.lately, self.over_s, waiting)


def chart_point(at: float, traffic: Traffic, over_s: float, waiting: int | None = None) -> Point:
    """Return downloads per second by ``KINDS``, waiting, success in %, latency in ms."""
    rates = [round(count / over_s, 2) for count in traffic.counts]
    success = None if traffic.success is None else round(100 * traffic.success, 1)
    return (round(at, 2), *rates, waiting, success, traffic.latency_ms)


@dataclass(slots=True)
class Timeline:
    """Progress of one crawl since its first sample; older points are coarser."""

    points: list[Point] = field(default_factory=list)

    def note(self, at: float, one: CrawlState) -> None:
        """Add a point: done, failed, waiting."""
        values = (one.done, one.failed, one.pending + one.held)
        if not self.points and 0 < at - one.started_at < _SEEN_FROM_BEGIN_S:
            self.points.append((round(one.started_at, 2), 0, 0, 0))
        if self.points and tuple(self.points[-1][1:]) == values:
            return
        self.points.append((round(at, 2), *values))
        if len(self.points) > _MOST_POINTS:
            del self.points[1:-1:2]


class Sampler:
    """Samples the cluster, and remembers a quarter of an hour of it."""

    def __init__(self, redis: Redis, keys: FrontierKeys, frontier: FrontierQueries) -> None:
        self.samples: deque[ClusterSample] = deque()
        self.crawls: Sequence[CrawlState] = ()
        """Crawls that Redis remembers, as of their latest sample."""
        self.is_blind = True
        """True if the latest sample failed."""
        self._redis: Any = redis
        self._keys = keys
        self._frontier = frontier
        self._counted: deque[CounterSnapshot] = deque()
        self._timelines: dict[CrawlKey, Timeline] = {}
        self._watchers = 0
        self._crawls_due = 0.0
        self._past: dict[int, tuple[float, Sequence[Point]]] = {}
        self._woken = asyncio.Event()
        self._looked = asyncio.Event()
        self._answers: dict[Hashable, tuple[float, asyncio.Future[Any]]] = {}

    async def run(self) -> None:
        """Sample until cancelled; retry while Redis is unavailable."""
        while True:
            self._woken.clear()
            try:
                await self._look()
                self.is_blind = False
            except (CrawlstreamError, RedisError, OSError) as error:
                self.is_blind = True
                log.debug("sample", outcome="missed", error=str(error))
            looked, self._looked = self._looked, asyncio.Event()
            looked.set()
            await self._sleep()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count a watcher for the length of the block."""
        self._watchers += 1
        self._woken.set()
        try:
            yield
        finally:
            self._watchers -= 1

    @property
    def watchers(self) -> int:
        """Number of watchers."""
        return self._watchers

    async def next_look(self, timeout_s: float) -> None:
        """Return after the next sample, or after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._looked.wait()
        except TimeoutError:
            return

    async def fresh(self) -> None:
        """Return when the latest sample is at most a second old, or after two without an answer."""
        if not self.samples or time.time() - self.samples[-1].at > WATCHED_S:
            self._woken.set()
            await self.next_look(2)

    async def shared(self, name: Hashable, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of ``ask``; calls within half a second share one result."""
        now = time.monotonic()
        asked_at, answer = self._answers.get(name, (0.0, None))
        if answer is None or now - asked_at > _FRESH_S:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            answer = asyncio.ensure_future(ask())
            self._answers[name] = (now, answer)
        # A caller that is cancelled does not cancel the others.
        return await asyncio.shield(answer)

    def since(self, at: float) -> Sequence[Point]:
        """Return points of the cluster's charts after a time, also from before the first sample."""
        first = self.samples[0].at if self.samples else time.time()
        before = [point for point in self.past(int(KEPT_S)) if (point[0] or 0) < first]
        points = [*before, *(sample.point for sample in self.samples)]
        return [point for point in points if (point[0] or 0) > at]

    def past(self, span_s: int, at: float = 0.0) -> Sequence[Point]:
        """Return the latest result of ``look_back`` after a time; it has no waiting pages."""
        _, points = self._past.get(span_s, (0.0, ()))
        return [point for point in points if (point[0] or 0) > at]

    async def look_back(self, span_s: int) -> None:
        """Read the downloads of the last ``span_s`` seconds, unless they were read lately."""
        due, _ = self._past.get(span_s, (0.0, ()))
        if time.monotonic() < due:
            return
        found = await read_past(self._redis, self._keys, span_s)
        points = [chart_point(end, traffic, width_s) for end, width_s, traffic in found]
        self._past[span_s] = (time.monotonic() + _PAST_EVERY_S, points)

    def timeline(self, crawl: CrawlKey, at: float) -> Sequence[Point]:
        """Return points of one crawl after a time: done, failed, waiting."""
        known = self._timelines.get(crawl)
        return [point for point in known.points if cast(float, point[0]) > at] if known else ()

    async def _sleep(self) -> None:
        if self._watchers:
            await asyncio.sleep(WATCHED_S)
            return
        try:
            async with asyncio.timeout(IDLE_S):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _look(self) -> None:
        state = await self._frontier.state()
        if not self.samples:
            await self.look_back(int(KEPT_S))
        traffic = await read_total(self._redis, self._keys)
        counted = CounterSnapshot(time.time(), traffic)
        self.samples.append(self._sample(state, counted))
        self._counted.append(counted)
        for kept, oldest in ((self.samples, KEPT_S), (self._counted, _RATE_OVER_S + IDLE_S)):
            while kept[0].at < counted.at - oldest:
                cast("deque[Any]", kept).popleft()
        if time.monotonic() >= self._crawls_due:
            await self._look_at_crawls(counted.at)

    def _sample(self, state: FrontierState, now: CounterSnapshot) -> ClusterSample:
        before = self._counted_before(now.at - _RATE_OVER_S) or now
        return ClusterSample(
            at=now.at,
            lately=now.traffic.since(before.traffic),
            over_s=max(now.at - before.at, WATCHED_S),
            state=state,
        )

    def _counted_before(self, at: float) -> CounterSnapshot | None:
        """Return the counters at a moment, or the oldest that are known."""
        older = [counted for counted in self._counted if counted.at <= at]
        return older[-1] if older else next(iter(self._counted), None)

    async def _look_at_crawls(self, at: float) -> None:
        began = time.monotonic()
        self.crawls = await self._frontier.crawls()
        took = time.monotonic() - began
        self._crawls_due = time.monotonic() + max(_CRAWLS_EVERY_S, took / _SHARE_OF_CRAWLS)
        latest = sorted(self.crawls, key=lambda one: one.last_activity)[-_MOST_TIMELINES:]
        known = self._timelines
        self._timelines = {one.crawl: known.get(one.crawl, Timeline()) for one in latest}
        for one in latest:
            self._timelines[one.crawl].note(at, one)
