"""Compare two crawlers with one, with all servers on the same two cores, without and with results.

The ideal ratio is two. The difference is CPU time that broker, Redis and site take from the second
crawler; it is reported per page.
"""

from __future__ import annotations

from lib.crawlers import Speed, Web, stage
from lib.harness import Benchmark, Figures, Line
from redis.asyncio import Redis


def _figures(name: str, one: Speed, two: Speed) -> Figures:
    return {
        name: two.pages_per_s / (2 * one.pages_per_s),
        f"{name}_one_per_s": one.pages_per_s,
        f"{name}_two_per_s": two.pages_per_s,
        **{f"{name}_{role}_ms": value for role, value in sorted(two.cpu_ms.items())},
    }


async def measure(redis: Redis) -> Figures:
    """Measure one worker and two, of either kind."""
    async with stage(redis, Web()) as on:
        quiet = [await on.cluster("quiet", workers=count) for count in (1, 2)]
        loud = [await on.cluster("link", workers=count) for count in (1, 2)]
    return {**_figures("without_results", *quiet), **_figures("with_results", *loud)}


if __name__ == "__main__":
    Benchmark(
        name="scale",
        about="Two workers ÷ twice one on this machine: 1 000 hosts, 20 links, 1 KB.",
        measure=measure,
        lines={
            "without_results": Line(floor=0.80, goal=0.92, unit="", more=True),
            "with_results": Line(floor=0.70, goal=0.82, unit="", more=True),
        },
        repetitions=2,
    ).main()
