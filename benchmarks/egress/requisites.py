"""Compare the CPU time of an archived page with its thirty requisites with that of the page alone.

Both crawls keep pages as they are sent, obey robots.txt and deliver to Kafka; they take turns. The
pages: 40 KB with 60 links, whose files have 5 to 50 KB, 20 KB in the mean; and small ones of
4 KB with 20 links, whose files have 100 bytes to 1 KB.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from egress import illustrated_web
from lib.crawlers import Stage
from lib.harness import Benchmark, Figures, Line
from lib.processes import own_kafka
from lib.webs import counting_web, running_web
from redis.asyncio import Redis

from crawlstream_cli.local.ports import free_block

MEASURED_S = 8


@dataclass(frozen=True, slots=True)
class Pages:
    """Shape of the pages of a web."""

    links: int
    size: int
    least: int
    """Bytes of the smallest file of a page."""
    most: int


USUAL, SMALL = Pages(60, 40 * 1024, 5 * 1024, 50 * 1024), Pages(20, 4 * 1024, 100, 1024)


@asynccontextmanager
async def stage(redis: Redis, pages: Pages) -> AsyncIterator[tuple[Stage, Stage]]:
    """Everything that a crawler needs: one that counts pages, and one that counts their files."""
    port = free_block(1)
    numbers = (port, pages.links, pages.size, pages.least, pages.most)
    argv = (sys.executable, str(illustrated_web.__file__), *map(str, numbers))
    seeds = [illustrated_web.url(port, host) for host in range(illustrated_web.HOSTS)]
    alone, whole = (replace(counting_web(port, path), seeds=seeds) for path in ("served", "whole"))
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder) as kafka, running_web(argv, alone, folder):
            on = Stage(redis, kafka, alone, folder, MEASURED_S)
            yield on, replace(on, web=whole)


async def crawl(on: Stage, *, requisites: bool) -> Figures:
    """Measure one crawler, from an empty frontier."""
    await on.prepare(archive=True, requisites=requisites)
    crawler = (sys.executable, "-P", "-m", "crawling", "link")
    speed = await on.speed(crawler, env={**on.environment, "ROBOTSTXT_OBEY": "true"})
    return {
        "cpu_ms": speed.cpu_ms["crawler"],
        "all_cpu_ms": sum(ms for role, ms in speed.cpu_ms.items() if role != "site"),
        "per_s": speed.pages_per_s,
    }


async def measure(redis: Redis) -> Figures:
    """Measure pages of both sizes, alone and with their requisites."""
    figures: dict[str, float] = {}
    for name, pages in (("", USUAL), ("small_", SMALL)):
        async with stage(redis, pages) as (of_pages, of_files):
            alone = await crawl(of_pages, requisites=False)
            whole = await crawl(of_files, requisites=True)
        await redis.flushall()
        figures |= {
            f"{name}of_page_alone": whole["cpu_ms"] / alone["cpu_ms"],
            f"{name}all_of_page_alone": whole["all_cpu_ms"] / alone["all_cpu_ms"],
            **{f"{name}alone_{key}": value for key, value in alone.items()},
            **{f"{name}whole_{key}": value for key, value in whole.items()},
        }
    return figures


if __name__ == "__main__":
    Benchmark(
        name="requisites",
        about="CPU time of a crawler for an archived page with its 30 requisites ÷ for the page"
        " alone.",
        measure=measure,
        lines={"of_page_alone": Line(floor=4, goal=2.5, unit="")},
        repetitions=2,
    ).main()
