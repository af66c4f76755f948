"""Redis round trips a page of one crawler that is kept busy by a synthetic web."""

from __future__ import annotations

import asyncio

from lib.crawlers import CRAWL, Web, stage
from lib.harness import Benchmark, Figures, Line, measured
from lib.processes import CRAWLER, running
from redis.asyncio import Redis

from crawlstream_frontier.frontier import Frontier

WARM_UP_PAGES = 300
MEASURED_S = 15


async def pages_done(frontier: Frontier) -> int:
    """Return how many pages the crawl has brought; one call to Redis."""
    state = await frontier.queries.crawl_state(CRAWL, with_domains=False)
    return state.done if state else 0


async def measure(redis: Redis) -> Figures:
    """Let one crawler work, and count what it asks of Redis."""
    async with stage(redis, Web()) as on:
        frontier = await on.prepare()
        with running(*CRAWLER, folder=on.folder, **on.environment):
            while await pages_done(frontier) < WARM_UP_PAGES:
                await asyncio.sleep(0.1)
            async with measured(redis) as cost:
                before = await pages_done(frontier)
                await asyncio.sleep(MEASURED_S)
                pages = await pages_done(frontier) - before
    return {
        "calls_a_page": (cost.calls - 2) / pages,
        "pages_per_s": pages / cost.wall_s,
        "redis_us_a_page": cost.cpu_us / pages,
    }


if __name__ == "__main__":
    Benchmark(
        name="calls",
        about="Redis round trips a page of one busy crawler.",
        measure=measure,
        lines={"calls_a_page": Line(floor=1, goal=0.1, unit="")},
        repetitions=1,
    ).main()
