"""Measure what a crawl does to the other visitors of a site, with and without a gentle rule.

The frontier is the real one, in a real Redis, and two workers lease from it. The site and its time
are simulated: four servers, first come, first served, of which other visitors use a fifth. So the
figures do not depend on the machine. Each comparison has the same visitors.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from unittest.mock import patch

from lib.harness import Benchmark, Figures, Line
from lib.load import KEYS, SPIDER, done, links, open_frontier, put_all
from redis.asyncio import Redis

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import SentRequest
from crawlstream.model.throttle_table import Reaction, SiteReaction, ThrottleRule
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.reckoning import Reckoning
from crawlstream_frontier.worker.session import WorkerSession

SERVERS, SERVICE_S, OTHERS = 4, 0.2, 0.2
"""Servers of the site, their mean time for a page, and the part of it that others use."""
LASTS_S = 1500.0
SLOW_S, SLOWER = (600.0, 900.0), 4.0
"""When the site is slower, and by how much."""
RULE = ThrottleRule(hits=30, window_s=1, concurrency=8)
SEEDS = (1, 2, 3, 4)
"""At a slow site the ratios of single ones are from 1.05 to 1.14."""
ANSWER = SiteReaction(Reaction.ANSWER)


@dataclass(slots=True)
class Site:
    """Serves requests in the order of their arrival; seconds from the beginning."""

    is_slow: bool
    free: list[float] = field(default_factory=lambda: [0.0] * SERVERS)
    """When each server is free again, as a heap."""
    waits: list[float] = field(default_factory=list)
    """Waiting of the others, to the end of their answers."""

    def serve(self, at: float, work: float) -> float:
        """Return when a request that comes now is answered."""
        is_slower = self.is_slow and SLOW_S[0] < at < SLOW_S[1]
        start = max(at, heapq.heappop(self.free))
        end = start + work * SERVICE_S * (SLOWER if is_slower else 1)
        heapq.heappush(self.free, end)
        return end

    @property
    def p95(self) -> float:
        """Return what only one visitor of twenty has to wait longer for."""
        return sorted(self.waits)[int(len(self.waits) * 0.95)]


def visitors(seed: int) -> Iterator[tuple[float, float]]:
    """Yield when each of the others comes, and its work in units of the mean."""
    random_, at = random.Random(seed), 0.0
    while (at := at + random_.expovariate(OTHERS * SERVERS / SERVICE_S)) < LASTS_S:
        yield at, random_.expovariate(1)


class Crawl:
    """Two workers that fetch the pages of one site as the frontier allows it."""

    def __init__(self, redis: Redis, site: Site, seed: int) -> None:
        self._redis = redis
        self._site = site
        self._random = random.Random(-seed)
        names = ("first", "second")
        self._workers = [Frontier(redis, KEYS).session(name, SPIDER) for name in names]
        self._coming: list[tuple[float, int, int, Lease | None, float]] = []
        self._clock_s, self._number, self.pages = 0.0, 0, 0
        self._next_look = 0.0
        """When a worker asks for the next page."""

    def _add(self, at: float, worker: int, lease: Lease | None = None, sent_at: float = 0) -> None:
        self._number += 1
        heapq.heappush(self._coming, (at, self._number, worker, lease, sent_at))

    async def run(self, seed: int) -> None:
        """Let the others and the crawl come, until the time is over."""
        self._add(0.0, 0)
        for at, work in visitors(seed):
            while self._coming[0][0] <= at:
                await self._go_on(*heapq.heappop(self._coming))
            self._site.waits.append(self._site.serve(at, work) - at)

    async def _go_on(
        self, at: float, _: int, number: int, lease: Lease | None, sent_at: float
    ) -> None:
        """Report an answer, or nothing; request a page."""
        if lease is None and at != self._next_look:
            return
        step_ms = int(at * 1000) - int(self._clock_s * 1000)
        self._clock_s = at
        await self._redis.hincrby(KEYS.meta(), "clock", step_ms)
        worker, ended = self._workers[number], [lease] if lease else []
        took_ms = max(int((at - sent_at) * 1000), 1)
        sent = [
            SentRequest(one.token, 0, received=True, heard=ANSWER, first_byte_ms=took_ms)
            for one in ended
        ]
        answer = await worker.exchange(sent=sent, settles=[done(one) for one in ended], want=1)
        due_ms = await self._leave(worker, number, at, list(answer.leases)) or answer.next_due_ms
        look = at + max(due_ms or 1000, 1) / 1000
        if look < self._next_look or self._next_look <= at:
            self._next_look = look
            self._add(look, self._number % len(self._workers))

    async def _leave(
        self, worker: WorkerSession, number: int, at: float, leases: list[Lease]
    ) -> int | None:
        """The requests of new leases reach the site at once; return when the next may leave."""
        if not leases:
            return None
        for lease in leases:
            self.pages += 1
            self._add(self._site.serve(at, self._random.expovariate(1)), number, lease, at)
        sent = [SentRequest(lease.token, 0) for lease in leases]
        return (await worker.exchange(sent=sent)).next_due_ms


async def crawled(redis: Redis, gentle: float, seed: int, *, is_slow: bool) -> tuple[float, float]:
    """Return the 95th percentile of the others' waiting, and pages per second."""
    filler, lease = await open_frontier(redis, replace(RULE, gentle=gentle))
    await put_all(filler, lease, [links("site.example", 1000) for _ in range(28)])
    site = Site(is_slow)
    crawl = Crawl(redis, site, seed)
    with patch.object(Reckoning, "known", lambda _: (0, 0)):  # no time passes but this one's
        await crawl.run(seed)
    return site.p95, crawl.pages / LASTS_S


def undisturbed(seed: int, *, is_slow: bool) -> float:
    """Return the 95th percentile of their waiting without a crawl."""
    site = Site(is_slow)
    site.waits = [site.serve(at, work) - at for at, work in visitors(seed)]
    return site.p95


async def measure(redis: Redis) -> Figures:
    """Compare the same visitors with and without a crawl, at a steady and at a slow site."""
    figures: dict[str, float] = {}
    for name, gentle in (("gentle_1", 1.0), ("gentle_2", 2.0), ("rule_alone", 0.0)):
        for kind, is_slow in (("", False), ("_slow", True)):
            seeds = SEEDS if gentle == 1 else SEEDS[:1]
            told = [await crawled(redis, gentle, seed, is_slow=is_slow) for seed in seeds]
            calm = [undisturbed(seed, is_slow=is_slow) for seed in seeds]
            ratios = [p95 / alone for (p95, _), alone in zip(told, calm, strict=True)]
            figures[f"p95_{name}{kind}"] = sum(ratios) / len(ratios)
            figures[f"pages_{name}{kind}"] = sum(rate for _, rate in told) / len(told)
    return figures


if __name__ == "__main__":
    ratio = "times"
    Benchmark(
        name="gentle",
        about="Waiting of a site's other visitors (95th percentile) ÷ without a crawl.",
        measure=measure,
        lines={
            "p95_gentle_1": Line(floor=1.10, goal=1.05, unit=ratio),
            "p95_gentle_1_slow": Line(floor=1.10, goal=1.05, unit=ratio),
        },
        repetitions=1,
    ).main()
