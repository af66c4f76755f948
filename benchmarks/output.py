"""What delivering costs: pages a second with results to Kafka ÷ without, at 20 KB a page."""

from __future__ import annotations

from crawlers import Web, stage
from harness import Benchmark, Figures, Line
from redis.asyncio import Redis


async def measure(redis: Redis) -> Figures:
    """One turn of each."""
    async with stage(redis, Web(size=20 * 1024)) as on:
        without = await on.cluster("quiet")
        with_them = await on.cluster("link")
    return {
        "with_of_without": with_them.pages_per_s / without.pages_per_s,
        "pages_per_s": with_them.pages_per_s,
        "pages_per_s_without": without.pages_per_s,
        **{f"{role}_ms": value for role, value in sorted(with_them.cpu_ms.items())},
        **{f"{role}_ms_without": value for role, value in sorted(without.cpu_ms.items())},
    }


if __name__ == "__main__":
    Benchmark(
        name="output",
        about="Pages a second with results to Kafka ÷ without: one worker, 20 links, 20 KB.",
        measure=measure,
        lines={"with_of_without": Line(floor=0.88, goal=0.95, unit="", more=True)},
        repetitions=2,
    ).main()
