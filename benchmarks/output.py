"""Measure the cost of delivery: pages per second with results to Kafka ÷ without, at 20 KB a page.

It runs once with each codec: CPU time per page shows a codec's cost even if the web is the limit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from lib.crawlers import Stage, Web, stage
from lib.harness import Benchmark, Figures, Line
from redis.asyncio import Redis

from crawlstream.bus.codecs import Codec

DEFAULT: Codec = "gzip"


async def measure(redis: Redis) -> Figures:
    """Measure each once."""
    async with stage(redis, Web(size=20 * 1024)) as on:
        without = await on.cluster("quiet")
        with_them = await on.cluster("link")
        others = [codec for codec in get_args(Codec) if codec != DEFAULT]
        packed = {codec: await _packed(on, codec) for codec in others}
    return {
        "with_of_without": with_them.pages_per_s / without.pages_per_s,
        "pages_per_s": with_them.pages_per_s,
        "pages_per_s_without": without.pages_per_s,
        **{f"{role}_ms": value for role, value in sorted(with_them.cpu_ms.items())},
        **{f"{role}_ms_without": value for role, value in sorted(without.cpu_ms.items())},
        **{name: value for figures in packed.values() for name, value in figures.items()},
    }


async def _packed(on: Stage, codec: str) -> Figures:
    speed = await replace(on, codec=codec).cluster("link")
    costs = {f"{role}_ms_{codec}": speed.cpu_ms[role] for role in ("crawler", "kafka")}
    return {f"pages_per_s_{codec}": speed.pages_per_s, **costs}


if __name__ == "__main__":
    Benchmark(
        name="output",
        about="Pages a second with results to Kafka ÷ without: one worker, 20 links, 20 KB.",
        measure=measure,
        lines={"with_of_without": Line(floor=0.88, goal=0.95, unit="", more=True)},
        repetitions=2,
    ).main()
