"""Compare the cost of a page for a worker with a browser's TLS profile and for one without."""

from __future__ import annotations

import sys

from crawl import MEASURED_S
from lib.crawlers import Speed, Stage, stage
from lib.harness import Benchmark, Figures, Line
from lib.webs import Web
from redis.asyncio import Redis

PROFILE = "chrome"
SIZE = 20 * 1024


async def asking(on: Stage, tls: str | None) -> Speed:
    """Measure one cluster crawler, from an empty frontier, with this profile."""
    await on.prepare(tls=tls)
    crawler = (sys.executable, "-P", "-m", "crawling", "link")
    profiles = {"CRAWLSTREAM_TLS_PROFILES": f"default,{PROFILE}"}
    return await on.speed(crawler, env={**on.environment, **profiles})


async def measure(redis: Redis) -> Figures:
    """Sites that keep connections, and sites that close each; both profiles in turns."""
    figures: dict[str, float] = {}
    for name, connections in (("kept", "keeps"), ("new", "closes")):
        web = Web(size=SIZE, tls=connections)
        async with stage(redis, web, measured_s=MEASURED_S) as on:
            own, browser = await asking(on, None), await asking(on, PROFILE)
        figures |= {
            f"{name}_of_own": browser.cpu_ms["crawler"] / own.cpu_ms["crawler"],
            f"{name}_cpu_ms": browser.cpu_ms["crawler"],
            f"{name}_own_cpu_ms": own.cpu_ms["crawler"],
            f"{name}_per_s": browser.pages_per_s,
            f"{name}_own_per_s": own.pages_per_s,
        }
    return figures


if __name__ == "__main__":
    Benchmark(
        name="tls",
        about="CPU time of a worker per page with the TLS of Chrome beside that without a profile.",
        measure=measure,
        lines={
            "kept_of_own": Line(floor=1.4, goal=1.1, unit=""),
            "new_of_own": Line(floor=1.0, goal=0.8, unit=""),
        },
        repetitions=2,
    ).main()
