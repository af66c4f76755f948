"""Counters, a list of domains and a stop where much waits; and the longest call that each takes."""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import Any

from harness import Benchmark, Cost, Figures, Line, measured
from load import CRAWL, fill, open_frontier
from redis.asyncio import Redis

from crawlstream.frontier.frontier import Frontier
from crawlstream.model.effects import Command, IntakeBatch

QUEUED, DOMAINS = 1_000_000, 100_000
STOPPED_DOMAINS = 10_000
"""The domains of the crawl that is stopped, as in the prototype that the goals were taken from; a
stop of ten times as many stands beside it."""
ASKED = 20


async def stop_and_sweep(frontier: Frontier) -> None:
    """Stop the crawl, and take care until nothing of it is left."""
    stop = Command(offset=1, timestamp_ms=1, name="stop", request=b"{}", crawl=CRAWL)
    batch = IntakeBatch(topic_id="bench", kafka_partition=0, start=1, next=2, records=[stop])
    await frontier.intake(batch)
    while (await frontier.tend()).more:
        pass


async def watched(redis: Any, work: Awaitable[object]) -> tuple[Cost, float]:
    """What it took, and the longest single call in ms."""
    await redis.config_set("slowlog-log-slower-than", 50)
    await redis.config_set("slowlog-max-len", 10_000)
    await redis.slowlog_reset()
    async with measured(redis) as cost:
        await work
    calls = await redis.slowlog_get(10_000)
    return cost, max((call["duration"] for call in calls), default=0) / 1000


async def measure(redis: Redis) -> Figures:
    """A million entries over a hundred thousand domains; counters never look at entries.

    BENCH_QUEUED sets another number of entries, which only ``fill`` feels.
    """
    queued = int(os.environ.get("BENCH_QUEUED", QUEUED))
    frontier, hold = await open_frontier(redis)
    await fill(frontier, hold, DOMAINS, queued // DOMAINS)
    async with measured(redis) as counters:
        for _ in range(ASKED):
            await frontier.crawl_state(CRAWL, with_domains=False)
    listing, longest_listing = await watched(redis, frontier.crawl_state(CRAWL))
    wide, longest_wide = await watched(redis, stop_and_sweep(frontier))
    frontier, hold = await open_frontier(redis)
    await fill(frontier, hold, STOPPED_DOMAINS, QUEUED // STOPPED_DOMAINS)
    stop, longest_stop = await watched(redis, stop_and_sweep(frontier))
    return {
        "counters_ms": counters.wall_s / ASKED * 1000,
        "domains_s": listing.wall_s,
        "domains_longest_ms": longest_listing,
        "stop_ms": stop.script_us / 1000,
        "stop_longest_ms": longest_stop,
        "counters_cpu_ms": counters.cpu_us / ASKED / 1000,
        "domains_cpu_s": listing.cpu_us / 1e6,
        "stop_cpu_ms": stop.cpu_us / 1000,
        "stop_wall_ms": stop.wall_s * 1000,
        "stop_of_100k_domains_cpu_ms": wide.cpu_us / 1000,
        "stop_of_100k_domains_longest_ms": longest_wide,
    }


if __name__ == "__main__":
    Benchmark(
        name="info",
        about="Counters, 100 000 domains listed, 1 M entries stopped; the longest call of each.",
        measure=measure,
        lines={
            "counters_ms": Line(floor=5, goal=1, unit="ms"),
            "domains_s": Line(floor=1, goal=0.3, unit="s"),
            "domains_longest_ms": Line(floor=5, goal=2, unit="ms"),
            "stop_ms": Line(floor=300, goal=100, unit="ms"),
            "stop_longest_ms": Line(floor=5, goal=2, unit="ms"),
        },
        repetitions=1,
    ).main()
