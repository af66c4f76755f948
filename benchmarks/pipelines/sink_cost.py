"""Measure an archive's cost to the crawl: pages per second with a pipeline ÷ without, at 20 KB."""

from __future__ import annotations

from lib.crawlers import Web, stage
from lib.harness import Benchmark, Figures, Line
from lib.sinks import pipeline
from redis.asyncio import Redis


async def measure(redis: Redis) -> Figures:
    """Measure each once, on the same web in the same minutes."""
    async with stage(redis, Web(size=20 * 1024)) as on:
        without = await on.cluster()
        sink = f'kind = "files", path = "{on.folder}/out", format = "jsonl.zst"'
        with pipeline(sink, on.folder, on.environment):
            beside = await on.cluster()
    return {
        "with_of_without": beside.pages_per_s / without.pages_per_s,
        "pages_per_s": beside.pages_per_s,
        "pages_per_s_without": without.pages_per_s,
        **{f"{role}_ms": value for role, value in sorted(beside.cpu_ms.items())},
    }


if __name__ == "__main__":
    Benchmark(
        name="sink-cost",
        about="Pages a second with a pipeline into JSON lines beside ÷ without: one worker, 20 KB.",
        measure=measure,
        lines={"with_of_without": Line(floor=0.80, goal=0.90, unit="", more=True)},
        repetitions=2,
    ).main()
