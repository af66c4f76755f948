"""Discovered links deduped and queued a second by one Redis: as pages have them, and in bulk."""

from __future__ import annotations

import random

from lib.harness import Benchmark, Cost, Figures, Line, measured
from lib.load import domain_name, fill, links, open_frontier, put_all
from redis.asyncio import Redis

from crawlstream.model.effects import Links

DOMAINS = 1_000
LINKS = 100_000
PAGE_GROUPS = (12, *(1,) * 8)
"""Links a group of one page: its own domain, and eight others."""
BULK_GROUP = 20


def page_like() -> list[Links]:
    """Links of pages over all domains."""
    sizes = PAGE_GROUPS * (LINKS // sum(PAGE_GROUPS))
    return [links(domain_name(random.randrange(DOMAINS)), size) for size in sizes]


def bulk() -> list[Links]:
    """Return as many links in larger groups."""
    return [links(domain_name(i % DOMAINS), BULK_GROUP) for i in range(LINKS // BULK_GROUP)]


async def cost_of(redis: Redis, groups: list[Links], *, known_domains: bool = True) -> Cost:
    """Return the cost to put these links into a frontier that knows their domains, or none."""
    filler, lease = await open_frontier(redis)
    if known_domains:
        await fill(filler, lease, DOMAINS, 2)
    async with measured(redis) as cost:
        await put_all(filler, lease, groups)
    return cost


async def measure(redis: Redis) -> Figures:
    """Links a second, all of them new: duplicates would cost less."""
    page, large = await cost_of(redis, page_like()), await cost_of(redis, bulk())
    first = [links(domain_name(i), 1) for i in range(LINKS // 10)]
    new = await cost_of(redis, first, known_domains=False)
    return {
        "page_like_per_s": LINKS / page.cpu_us * 1e6,
        "bulk_per_s": LINKS / large.cpu_us * 1e6,
        "new_domains_per_s": len(first) / new.cpu_us * 1e6,
        "page_like_wall_per_s": LINKS / page.wall_s,
        "bulk_wall_per_s": LINKS / large.wall_s,
    }


if __name__ == "__main__":
    Benchmark(
        name="put",
        about="Discovered links deduped and queued a second of one Redis' CPU.",
        measure=measure,
        lines={
            "page_like_per_s": Line(floor=130_000, goal=250_000, unit="1/s", more=True),
            "bulk_per_s": Line(floor=200_000, goal=400_000, unit="1/s", more=True),
        },
    ).main()
