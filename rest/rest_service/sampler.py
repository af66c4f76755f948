"""The cluster's figures over time: looked at once, for everybody who watches.

One task asks Redis once a second while somebody watches, and once in ten seconds while nobody does,
so that a chart has a past when it is opened. What must be asked crawl by crawl is asked so seldom
that it takes a twentieth of the time at most, however many crawls there are.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.errors import CrawlstreamError
from crawlstream.frontier.frontier import Frontier
from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState, FrontierState
from crawlstream.stats.domains import read_timings
from crawlstream.stats.windows import LIFETIME

WATCHED_S, IDLE_S = 1.0, 10.0
"""From one look to the next, while somebody watches and while nobody does."""
KEPT_S = 900.0
_RATE_OVER_S, _LATENCY_OVER_S = 5.0, 30.0
"""Counters reach Redis once a second, times once in ten: rates are means over some of these."""
_TIMINGS_EVERY_S = 5.0
"""These are the largest of what is read."""
_CRAWLS_EVERY_S = 2.0
_SHARE_OF_CRAWLS = 0.05
_FRESH_S = 0.5
_MOST_ANSWERS = 100
_MOST_TIMELINES = 500
_MOST_POINTS = 240

Timings = Mapping[str, tuple[int, int]]
"""By quarter of an hour: downloads with a response, and the milliseconds of these."""
Point = Sequence[float | None]
"""The time (epoch s) and what was so then, in the order that the chart names."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Counted:
    """Counters that only grow, at one moment."""

    at: float
    responses: int
    good: int
    """Of these, with a status below 400."""
    timings: Timings


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The cluster at one moment."""

    at: float
    pages_per_s: float
    success: float | None
    """Share of the responses of the last seconds with a status below 400; None without any."""
    latency_ms: float | None
    """Mean over the last half minute; None where nothing came back."""
    state: FrontierState

    @property
    def point(self) -> Point:
        """As the charts of the cluster show it: pages/s, waiting, success in %, latency in ms."""
        waiting = self.state.queued + self.state.delayed + self.state.spilled
        success = None if self.success is None else round(100 * self.success, 1)
        return (round(self.at, 2), round(self.pages_per_s, 1), waiting, success, self.latency_ms)


@dataclass(slots=True)
class Timeline:
    """How one crawl went since it was first looked at, coarser the longer that is ago."""

    points: list[Point] = field(default_factory=list)

    def note(self, at: float, one: CrawlState) -> None:
        """Add a moment: done, failed, waiting."""
        values = (one.done, one.failed, one.pending + one.held)
        if self.points and tuple(self.points[-1][1:]) == values:
            return
        self.points.append((round(at, 2), *values))
        if len(self.points) > _MOST_POINTS:
            del self.points[1:-1:2]


class Sampler:
    """Looks at the cluster, and remembers a quarter of an hour of it."""

    def __init__(self, redis: Redis, keys: FrontierKeys, frontier: Frontier) -> None:
        self.samples: deque[Sample] = deque()
        self.crawls: Sequence[CrawlState] = ()
        """Those that are remembered, as they were when they were last looked at."""
        self.is_blind = True
        """Whether the last look failed."""
        self._redis: Any = redis
        self._keys = keys
        self._frontier = frontier
        self._counted: deque[Counted] = deque()
        self._timelines: dict[CrawlKey, Timeline] = {}
        self._watchers = 0
        self._crawls_due = self._timings_due = 0.0
        self._timings: Timings = {}
        self._woken = asyncio.Event()
        self._looked = asyncio.Event()
        self._answers: dict[Hashable, tuple[float, asyncio.Future[Any]]] = {}

    async def run(self) -> None:
        """Look until cancelled; a Redis that is away is looked for again."""
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
        """Somebody watches for the length of the block."""
        self._watchers += 1
        self._woken.set()
        try:
            yield
        finally:
            self._watchers -= 1

    @property
    def watchers(self) -> int:
        """How many watch."""
        return self._watchers

    async def next_look(self, timeout_s: float) -> None:
        """Return when the cluster was looked at again, or after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._looked.wait()
        except TimeoutError:
            return

    async def fresh(self) -> None:
        """Return when the last look is a second old at most, or after two without an answer."""
        if not self.samples or time.time() - self.samples[-1].at > WATCHED_S:
            self._woken.set()
            await self.next_look(2)

    async def shared(self, name: Hashable, ask: Callable[[], Awaitable[Any]]) -> Any:
        """What ``ask`` answers; within half a second it is asked once, however many want it."""
        now = time.monotonic()
        asked_at, answer = self._answers.get(name, (0.0, None))
        if answer is None or now - asked_at > _FRESH_S:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            answer = asyncio.ensure_future(ask())
            self._answers[name] = (now, answer)
        # Whoever goes away takes nothing from the others.
        return await asyncio.shield(answer)

    def since(self, at: float) -> Sequence[Point]:
        """The cluster after a time, as points of its charts."""
        return [sample.point for sample in self.samples if sample.at > at]

    def timeline(self, crawl: CrawlKey, at: float) -> Sequence[Point]:
        """The same of one crawl: done, failed, waiting."""
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
        counted = await self._count()
        self.samples.append(self._sample(state, counted))
        self._counted.append(counted)
        for kept, oldest in ((self.samples, KEPT_S), (self._counted, _LATENCY_OVER_S + IDLE_S)):
            while kept[0].at < counted.at - oldest:
                cast("deque[Any]", kept).popleft()
        if time.monotonic() >= self._crawls_due:
            await self._look_at_crawls(counted.at)

    async def _count(self) -> Counted:
        by_status: Mapping[bytes, bytes] = await self._redis.hgetall(
            self._keys.stats("spider", LIFETIME)
        )
        counts = [(name.rpartition(b":")[2][:1], int(raw)) for name, raw in by_status.items()]
        return Counted(
            at=time.time(),
            responses=sum(count for _, count in counts),
            good=sum(count for status, count in counts if status < b"4"),
            timings=await self._read_timings(),
        )

    async def _read_timings(self) -> Timings:
        if time.monotonic() >= self._timings_due:
            self._timings = await read_timings(self._redis, self._keys)
            self._timings_due = time.monotonic() + _TIMINGS_EVERY_S
        return self._timings

    def _sample(self, state: FrontierState, now: Counted) -> Sample:
        lately = self._counted_before(now.at - _RATE_OVER_S) or now
        responses = max(0, now.responses - lately.responses)
        good = max(0, now.good - lately.good)
        before = self._counted_before(now.at - _LATENCY_OVER_S) or now
        return Sample(
            at=now.at,
            pages_per_s=responses / max(now.at - lately.at, WATCHED_S),
            success=good / responses if responses else None,
            latency_ms=latency_ms(before.timings, now.timings),
            state=state,
        )

    def _counted_before(self, at: float) -> Counted | None:
        """The counters at a moment, or the next that are known."""
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


def latency_ms(before: Timings, now: Timings) -> float | None:
    """The mean of what was added between two readings; None: nothing was."""
    added = [
        (timed - before.get(quarter, (0, 0))[0], ms - before.get(quarter, (0, 0))[1])
        for quarter, (timed, ms) in now.items()
        if quarter in before or quarter > max(before, default="")
    ]
    timed, ms = (sum(column) for column in zip(*added, strict=True)) if added else (0, 0)
    return round(ms / timed, 1) if timed > 0 else None
