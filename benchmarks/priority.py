"""From an urgent seed, fed while a crawler has all it can do, to its request at the site.

The crawler works through a deep backlog of an ordinary crawl; the seeds of priority 100 are of
crawls and hosts of their own, and come one by one through Kafka.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence

import orjson
from calls import running, seeds
from crawlers import SETTINGS, WARM_UP_PAGES, Stage, Web, stage
from harness import Benchmark, Figures, Line
from ingest import MONITOR
from latency import PATIENCE_S, PAUSE_S, Site
from load import KEYS, WIDE_OPEN
from redis.asyncio import Redis

from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream.frontier.frontier import Frontier
from crawlstream.keys import Topics
from crawlstream.model.throttle import ThrottleTable

URGENT = 150
TOPICS = Topics("bench")
CRAWLER = (sys.executable, "-P", "-m", "crawling", "link")


def _seed(url: str, crawlid: str, **more: int) -> Out:
    request = {"url": url, "appid": "bench", "crawlid": crawlid, **more}
    return Out(TOPICS.incoming, orjson.dumps(request))


async def _urgent(site: Site, sink: KafkaSink, port: int, number: int) -> float:
    """Milliseconds from one feed to its request."""
    arrived: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    site.arrived[f"/{number}"] = arrived
    url = f"http://127.2.{number // 250}.{1 + number % 250}:{port}/{number}"
    began = time.perf_counter()
    await sink.send([_seed(url, f"urgent-{number}", priority=100)])
    return (await asyncio.wait_for(arrived, PATIENCE_S) - began) * 1000


async def _through(on: Stage) -> Sequence[float]:
    site, sink = Site(), KafkaSink([on.kafka])
    server = await asyncio.start_server(site.answer, "0.0.0.0", 0)  # noqa: S104  all of 127/8
    port = server.sockets[0].getsockname()[1]
    await sink.start()
    await sink.send([_seed(url, "backlog", maxdepth=100) for url in seeds(on.port)])
    while on.served() < WARM_UP_PAGES:
        await asyncio.sleep(0.1)
    took_ms = []
    for number in range(URGENT):
        took_ms.append(await _urgent(site, sink, port, number))
        await asyncio.sleep(PAUSE_S)
    await sink.stop()
    server.close()
    return took_ms


async def measure(redis: Redis) -> Figures:
    """One row of urgent seeds."""
    await Frontier(redis, KEYS).copy_rules(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
    async with stage(redis, Web()) as on:
        env = {**SETTINGS, **on.environment}
        monitor = running(*MONITOR, folder=on.folder, **env)
        with monitor, running(*CRAWLER, folder=on.folder, **env):
            took_ms = await _through(on)
    percentiles = statistics.quantiles(took_ms, n=100)
    return {"p50_ms": percentiles[49], "p99_ms": percentiles[98], "slowest_ms": max(took_ms)}


if __name__ == "__main__":
    Benchmark(
        name="priority",
        about="From a priority-100 seed fed into a saturated cluster to its request at the site.",
        measure=measure,
        lines={"p99_ms": Line(floor=2_000, goal=250, unit="ms")},
        repetitions=1,
    ).main()
