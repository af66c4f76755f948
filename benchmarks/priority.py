"""From an urgent seed, fed while a crawler has all it can do, to its request at the site.

The crawler works through a deep backlog of an ordinary crawl; the seeds of priority 100 are of
crawls and hosts of their own, and come one by one through Kafka.
"""

from __future__ import annotations

import asyncio

from latency import Site, percentiles, request, serving
from lib.crawlers import WARM_UP_PAGES, Web, stage
from lib.harness import Benchmark, Figures, Line
from lib.load import KEYS, WIDE_OPEN
from lib.processes import CRAWLER, MONITOR, running
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.sink import KafkaSink
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.layout import create_frontier

URGENT = 150


async def measure(redis: Redis) -> Figures:
    """Measure a series of urgent seeds."""
    frontier = Frontier(redis, KEYS)
    await create_frontier(frontier.scripts)
    await frontier.rules.copy(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
    async with stage(redis, Web()) as on:
        monitor = running(*MONITOR, folder=on.folder, **on.environment)
        with monitor, running(*CRAWLER, folder=on.folder, **on.environment):
            async with serving(Site()) as site, KafkaSink(Kafka([on.kafka])) as sink:
                await sink.send([request(url, "backlog", maxdepth=100) for url in on.web.seeds])
                while on.web.served() < WARM_UP_PAGES:
                    await asyncio.sleep(0.1)
                return percentiles(await site.delays_ms(sink, URGENT, priority=100))


if __name__ == "__main__":
    Benchmark(
        name="priority",
        about="From a priority-100 seed fed into a saturated cluster to its request at the site.",
        measure=measure,
        lines={"p99_ms": Line(floor=2_000, goal=250, unit="ms")},
        repetitions=1,
    ).main()
