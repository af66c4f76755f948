"""Measure queues that are mostly on the shelf: their rest in Redis, and the cost to carry.

Sites are filled as crawls fill them: some links each, again and again, while a redis-monitor
carries. One that allows a request a minute is filled with more links than Redis has room for,
next to a thousand quick ones, whose rate is compared with their rate alone. BENCH_SLOW
sets how many links that are, and Redis' memory with it: with 10 million it has 256 MB.

BENCH_WAITING=100000000 fills a frontier with this many links, a thousand a site, on an outer
shelf, and says how large it becomes, how fast it is filled and leased from, and how long Redis
takes to fork and to load it. Both servers together want some 50 bytes a link.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import process_time

from lib.harness import Benchmark, Figures, Line, measured, own_redis
from lib.load import KEYS, LINKS_PER_CALL, done, open_frontier
from lib.quick_sites import Quick
from lib.restart import restarted
from lib.sites import mean_size, site_links
from redis.asyncio import Redis

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Settle
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.shelves.shelf import Shelf
from crawlstream_frontier.worker.session import WorkerSession

QUEUED = 100_000
EACH_INSIDE, EACH_OUTSIDE = (5, 50, 500, 50_000), (500, 50_000)
AT_ONCE = 50
"""Links of one site before it is another one's turn."""
LEASED = 20_000
SLOW = int(os.environ.get("BENCH_SLOW", "500000"))
SLOW_BYTES = max(256 * 2**20 * SLOW // 10_000_000, 16 * 2**20)
"""At least the memory of the quick sites, with a margin."""
MEASURED_S = 15
WAITING = int(os.environ.get("BENCH_WAITING", "0"))
A_SITE = 1_000


@dataclass(slots=True)
class Carrier:
    """Carries chunks as redis-monitors do, and measures their CPU and Redis'."""

    redis: Redis
    frontier: Frontier
    pages: int = 0
    python_us: float = 0.0
    redis_us: float = 0.0

    @classmethod
    def of(cls, redis: Redis, shelf: Redis | None = None) -> Carrier:
        """Chunks go to that server, or stay in Redis."""
        return cls(redis, Frontier(redis, KEYS, shelf=Shelf(shelf, "shelf") if shelf else None))

    async def carry(self) -> None:
        """All there is to do now."""
        is_idle = False
        while not is_idle:
            began = process_time()
            async with measured(self.redis) as cost:
                step = await self.frontier.stocking.step()
            self.python_us += (process_time() - began) * 1e6
            self.redis_us += cost.cpu_us
            self.pages += step.shelved + step.restocked
            is_idle = step.is_idle

    def take(self) -> tuple[float, float]:
        """Return CPU per page so far, of this process and of Redis, and reset both counts."""
        spent = self.python_us / max(self.pages, 1), self.redis_us / max(self.pages, 1)
        self.pages, self.python_us, self.redis_us = 0, 0.0, 0.0
        return spent


async def used(redis: Redis) -> int:
    """Bytes."""
    return int((await redis.info("memory"))["used_memory"])


async def fill(
    filler: WorkerSession, seed_lease: Lease, sites: range, each: int, carrier: Carrier
) -> None:
    """Put ``each`` links into every site, and carry as that goes on."""
    for first in range(0, each, AT_ONCE):
        count = min(AT_ONCE, each - first)
        batch = max(LINKS_PER_CALL // count, 1)
        for start in sites[::batch]:
            some = range(start, min(start + batch, sites.stop))
            groups = [site_links(site, first, count) for site in some]
            await filler.put_links(seed_lease.token, groups)
        await carrier.carry()


async def lease(redis: Redis, pages: int, carrier: Carrier) -> float:
    """Lease pages, a hundred a call, and carry in between; return Redis' CPU per lease alone."""
    worker = Frontier(redis, KEYS).session("worker", "link")
    left, cpu_us = pages, 0.0
    settles: list[Settle] = []
    while left > 0:
        async with measured(redis) as cost:
            answer = await worker.exchange(settles=settles, want=min(left, 100))
        cpu_us += cost.cpu_us
        left -= len(answer.leases)
        settles = [done(seed_lease) for seed_lease in answer.leases]
        await carrier.carry()
    await worker.exchange(settles=settles)
    return cpu_us / pages


@asynccontextmanager
async def shelves(*, is_outside: bool) -> AsyncIterator[Redis | None]:
    """A server for chunks; None: they stay in Redis."""
    if not is_outside:
        yield None
        return
    async with own_redis() as shelf:
        yield shelf


async def of_sites(redis: Redis, each: int, shelf: Redis | None) -> Figures:
    """Measure bytes per link with ``each`` links per site, and CPU per carried page if many."""
    filler, seed_lease = await open_frontier(redis)
    carrier, before = Carrier.of(redis, shelf), await used(redis)
    empty = await used(shelf) if shelf else 0
    await fill(filler, seed_lease, range(QUEUED // each), each, carrier)
    where = "outside" if shelf else "inside"
    found = {f"bytes_at_{each}_{where}": (await used(redis) - before) / QUEUED}
    if each < max(EACH_OUTSIDE):
        return found
    if shelf:
        found["bytes_on_shelf"] = (await used(shelf) - empty) / QUEUED
    shelved = carrier.take()
    await lease(redis, LEASED, carrier)
    restocked = carrier.take()
    for name, (python_us, redis_us) in (("shelved", shelved), ("restocked", restocked)):
        found |= {f"us_{name}_{where}": python_us, f"redis_us_{name}_{where}": redis_us}
    return found


async def beside_a_slow_site(redis: Redis, shelf: Redis) -> Figures:
    """Measure quick sites next to a slow one that has more links than fit into Redis."""
    quick = await Quick.open(redis)
    alone = await quick.rate(MEASURED_S)
    await shelf.flushall()
    quick = await Quick.open(redis)
    carrier = Carrier.of(redis, shelf)
    await redis.config_set("maxmemory", SLOW_BYTES)
    try:
        beside, took_s = await quick.rate_while(
            quick.fill_slow(SLOW, carrier.carry), at_least_s=MEASURED_S
        )
        return {
            "quick_kept": beside / alone,
            "quick_per_s": beside,
            "slow_links_per_s": SLOW / took_s,
            "slow_used_mb": await used(redis) / 2**20,
            "slow_limit_mb": SLOW_BYTES / 2**20,
        }
    finally:
        await redis.config_set("maxmemory", 0)


async def many(redis: Redis, shelf: Redis) -> Figures:
    """As many as BENCH_WAITING says."""
    filler, seed_lease = await open_frontier(redis)
    carrier, before = Carrier.of(redis, shelf), await used(redis)
    async with measured(redis) as filled:
        await fill(filler, seed_lease, range(WAITING // A_SITE), A_SITE, carrier)
    waiting, on_shelf = await used(redis) - before, await used(shelf)
    shelved = carrier.take()
    async with measured(redis) as leased:
        lease_us = await lease(redis, LEASED, carrier)
    again = await restarted(redis)
    return {
        "waiting": WAITING,
        "put_per_s": WAITING / filled.wall_s,
        "redis_us_a_link": filled.cpu_us / WAITING,
        "us_shelved": shelved[0],
        "bytes_a_link": waiting / WAITING,
        "gib": waiting / 2**30,
        "shelf_bytes_a_link": on_shelf / WAITING,
        "shelf_gib": on_shelf / 2**30,
        "leased_per_s": LEASED / leased.wall_s,
        "redis_us_a_lease": lease_us,
        "fork_ms": again.fork_ms,
        "save_s": again.save_s,
        "load_s": again.load_s,
    }


async def measure(redis: Redis) -> Figures:
    """All of it, or the long form."""
    if WAITING:
        async with own_redis() as shelf:
            return await many(redis, shelf)
    found: dict[str, float] = {"characters_a_url": mean_size()}
    plan: Sequence[tuple[bool, int]] = [
        *((False, each) for each in EACH_INSIDE),
        *((True, each) for each in EACH_OUTSIDE),
    ]
    for is_outside, each in plan:
        async with shelves(is_outside=is_outside) as shelf:
            found |= await of_sites(redis, each, shelf)
    async with own_redis() as shelf:
        found |= await beside_a_slow_site(redis, shelf)
    return found


if __name__ == "__main__":
    Benchmark(
        name="shelves",
        about="Bytes of Redis a link that waits; CPU to shelve and restock; quick sites' rate.",
        measure=measure,
        lines={}
        if WAITING
        else {
            "bytes_at_5_inside": Line(floor=230, goal=200, unit="B"),
            "bytes_at_50_inside": Line(floor=125, goal=110, unit="B"),
            "bytes_at_500_inside": Line(floor=60, goal=40, unit="B"),
            "bytes_at_50000_inside": Line(floor=45, goal=40, unit="B"),
            "bytes_at_500_outside": Line(floor=45, goal=12, unit="B"),
            "bytes_at_50000_outside": Line(floor=14, goal=12, unit="B"),
            "us_shelved_inside": Line(floor=70, goal=30, unit="µs"),
            "us_restocked_inside": Line(floor=70, goal=30, unit="µs"),
            "quick_kept": Line(floor=0.9, goal=0.95, unit="", more=True),
        },
        repetitions=1,
    ).main()
