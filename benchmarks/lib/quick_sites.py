"""A thousand sites that are visited every other second, and one that is visited once a minute."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from lib.load import KEYS, LINKS_PER_CALL, domain_name, done, links, open_frontier
from lib.sites import site_links
from redis.asyncio import Redis

from crawlstream.errors import FrontierFull, SetupError
from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Links, Settle
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.worker.session import WorkerSession

SITES = 1_000
SLOW_SITE = SITES
"""The number of the slow one."""
SLOWLY = ThrottleRule(hits=1, window_s=60)
QUICKLY = ThrottleRule(hits=1, window_s=2)
BACKLOG = 5
"""Links that each quick site has from the start; its pages bring more."""
LINKS_A_PAGE = 2
WARM_UP_S = 3.0
PACE_S = 0.01
PATIENCE_S = 60.0
"""A Redis that has had no room for so long will not have any."""


@dataclass(slots=True)
class Quick:
    """A frontier of such sites, and one worker that fetches without a network."""

    filler: WorkerSession
    lease: Lease
    worker: WorkerSession
    pages: int = 0

    @classmethod
    async def open(cls, redis: Redis) -> Quick:
        """An empty frontier but for the first links of the quick sites."""
        filler, lease = await open_frontier(redis, QUICKLY)
        frontier = Frontier(redis, KEYS)
        rules = {domain_name(SLOW_SITE): SLOWLY}
        await frontier.rules.copy(ThrottleTable(default=QUICKLY, rules=rules, czxid=1, mzxid=2))
        await filler.put_links(lease.token, [links(domain_name(n), BACKLOG) for n in range(SITES)])
        return cls(filler, lease, frontier.session("worker", "link"))

    async def rate(self, seconds: float) -> float:
        """Return the pages per second of the quick sites alone."""
        rate, _ = await self.rate_while(asyncio.sleep(0), at_least_s=seconds)
        return rate

    async def rate_while(
        self, work: Awaitable[object], *, at_least_s: float
    ) -> tuple[float, float]:
        """Return the rate during other work, and the seconds that the work took."""
        crawling = asyncio.ensure_future(self._crawl())
        try:
            await asyncio.sleep(WARM_UP_S)
            before, began = self.pages, time.monotonic()
            await work
            took_s = time.monotonic() - began
            await asyncio.sleep(max(at_least_s - took_s, 0))
            return (self.pages - before) / (time.monotonic() - began), took_s
        finally:
            crawling.cancel()

    async def fill_slow(self, count: int, carry: Callable[[], Awaitable[None]]) -> None:
        """Put ``count`` links into the slow site, and carry; if Redis is full, carry first."""
        first, latest = 0, time.monotonic()
        while first < count:
            size = min(LINKS_PER_CALL, count - first)
            try:
                await self.filler.put_links(self.lease.token, [site_links(SLOW_SITE, first, size)])
                first, latest = first + size, time.monotonic()
            except FrontierFull as error:
                if time.monotonic() > latest + PATIENCE_S:
                    raise SetupError(f"Redis is full of {first:,} links") from error
                await asyncio.sleep(PACE_S)
            await carry()

    async def _crawl(self) -> None:
        """Fetch what may be fetched; links that Redis has no room for are lost to the sites."""
        settles: list[Settle] = []
        while True:
            answer = await self.worker.exchange(settles=settles, want=200)
            refused = [replace(one, links=()) for one in settles if one.token in answer.refused]
            settles = [*refused, *(done(lease, _found()) for lease in answer.leases)]
            self.pages += sum(lease.domain != domain_name(SLOW_SITE) for lease in answer.leases)
            await asyncio.sleep(PACE_S)


def _found() -> list[Links]:
    """Return the links of a page."""
    return [links(domain_name(random.randrange(SITES)), 1) for _ in range(LINKS_A_PAGE)]
