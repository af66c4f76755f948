"""Compare CPU time per page with plain Scrapy's: of worker and Redis, and of a whole cluster.

The worker is also measured by part, for fetch lane and Scrapy's engine, on the synthetic web. The
whole cluster runs on the mixed web, with Kafka and otherwise idle kafka-monitor, redis-monitor and
REST service.
"""

from __future__ import annotations

from contextlib import ExitStack

from crawl import MEASURED_S, MIXED, SYNTHETIC, compare, plain_speed
from lib.crawlers import stage
from lib.harness import Benchmark, Figures, Line
from lib.parts import by_part
from lib.processes import MONITOR, REDIS_MONITOR, SERVICE, running
from redis.asyncio import Redis

from crawlstream_cli.local.ports import free_block


async def measure(redis: Redis) -> Figures:
    """Measure each crawler once on each web."""
    async with stage(redis, SYNTHETIC, measured_s=MEASURED_S) as on:
        synthetic = await compare(on)
        parts = {**await by_part(on, "engine"), **await by_part(on, "lane")}
    await redis.flushall()
    async with stage(redis, MIXED, measured_s=MEASURED_S) as on:
        plain_ms = (await plain_speed(on)).cpu_ms["crawler"]
        env = {**on.environment, "CRAWLSTREAM_REST_PORT": str(free_block(1))}
        await on.prepare()
        with ExitStack() as others:
            for argv in (MONITOR, REDIS_MONITOR, SERVICE):
                others.enter_context(running(*argv, folder=on.folder, **env))
            ours = await on.cluster()
    all_ms = {role: value for role, value in ours.cpu_ms.items() if role != "site"}
    return {
        "cpu_of_plain_scrapy": synthetic["cpu_of_plain_scrapy"],
        "cpu_of_all_of_plain_scrapy": sum(all_ms.values()) / plain_ms,
        "cpu_ms_a_page": synthetic["cpu_ms_a_page"],
        "plain_cpu_ms_a_page": synthetic["plain_cpu_ms_a_page"],
        "mixed_plain_cpu_ms_a_page": plain_ms,
        **{f"mixed_{role}_ms": value for role, value in sorted(all_ms.items())},
        **dict(sorted(parts.items())),
    }


if __name__ == "__main__":
    Benchmark(
        name="cpu",
        about="CPU time a page beside plain Scrapy's: worker and Redis, synthetic web; worker,"
        " Redis, Kafka, monitors and REST, mixed web.",
        measure=measure,
        lines={
            "cpu_of_plain_scrapy": Line(floor=0.25, goal=0.13, unit=""),
            "cpu_of_all_of_plain_scrapy": Line(floor=0.35, goal=0.22, unit=""),
        },
        repetitions=2,
    ).main()
