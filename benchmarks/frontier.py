"""Leases and settles a second by one Redis, batch 100, at a thousand and at a million domains."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import astuple
from statistics import fmean

from harness import Benchmark, Cost, Figures, Line, measured
from load import SPACED, WIDE_OPEN, fill, lease_and_settle, open_frontier
from redis.asyncio import Redis

from crawlstream.model.throttle import ThrottleRule

SMALL, LARGE = 1_000, 1_000_000
LEASED = 100_000
WORKERS = 2
"""Two clients at once, so that Redis never waits for one."""


async def cost_at(redis: Redis, domains: int, rule: ThrottleRule = WIDE_OPEN) -> Cost:
    """What it takes to lease and settle from so many domains, each with at least two entries."""
    frontier, hold = await open_frontier(redis, rule)
    await fill(frontier, hold, domains, max(2 * LEASED // domains, 2))
    share = LEASED // WORKERS
    async with measured(redis) as cost:
        await asyncio.gather(*(lease_and_settle(redis, f"w{i}", share) for i in range(WORKERS)))
    return cost


def mean(costs: Sequence[Cost]) -> Cost:
    """Of several costs."""
    return Cost(*(fmean(each) for each in zip(*map(astuple, costs), strict=True)))


async def measure(redis: Redis) -> Figures:
    """Both sizes, and what is lost between them; evenly spaced requests beside it.

    The small one is measured before and after the large one, which takes a minute to fill.
    """
    before, spaced = await cost_at(redis, SMALL), await cost_at(redis, SMALL, SPACED)
    large = await cost_at(redis, LARGE)
    small = mean([before, await cost_at(redis, SMALL)])
    return {
        "per_s_at_1e3": LEASED / small.cpu_us * 1e6,
        "per_s_at_1e6": LEASED / large.cpu_us * 1e6,
        "drop": 1 - small.cpu_us / large.cpu_us,
        "per_s_at_1e3_spaced": LEASED / spaced.cpu_us * 1e6,
        "wall_per_s_at_1e3": LEASED / small.wall_s,
        "wall_per_s_at_1e6": LEASED / large.wall_s,
        "us_at_1e3": small.cpu_us / LEASED,
        "us_at_1e6": large.cpu_us / LEASED,
        "script_us_at_1e3": small.script_us / LEASED,
        "script_us_at_1e6": large.script_us / LEASED,
    }


if __name__ == "__main__":
    Benchmark(
        name="frontier",
        about="Leases and settles (no children) a second of one Redis' CPU, batch 100.",
        measure=measure,
        lines={
            "per_s_at_1e3": Line(floor=80_000, goal=120_000, unit="1/s", more=True),
            "per_s_at_1e6": Line(floor=50_000, goal=100_000, unit="1/s", more=True),
            "drop": Line(floor=0.45, goal=0.20, unit=""),
        },
        repetitions=1,
    ).main()
