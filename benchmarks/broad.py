"""A thousand domains of unequal speed, crawled by one worker and by plain Scrapy with either queue.

The setting of scrapy-bench's *broadworm*: every host takes its own time to answer, from 50 ms to
5 s, and most links stay on their host. A crawler is as fast as it keeps its 16 connections
busy with hosts that are not yet asked for all they may be, 8 at a time; with all of them busy, the
sites' own time is the limit. 16 and 8 are Scrapy's defaults. The site counts the pages.
Run as a program with ``serve`` and a port, this is the site.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from functools import lru_cache, partial

import uvloop
from crawl import PLAIN_SPIDER
from lib import web
from lib.crawlers import fresh_frontier, seeds
from lib.harness import Benchmark, Figures, Line
from lib.processes import CRAWLER, environment, own_kafka, plain_scrapy, running
from redis.asyncio import Redis

from crawlstream.model.throttle_table import DEFAULT_CONCURRENCY, ThrottleRule
from crawlstream_cli.local.ports import free_block

FASTEST_S, SLOWEST_S = 0.05, 5.0
AT_ONCE = 16
WARM_UP_S, MEASURED_S = 8, 15
QUEUES = {
    "aware": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    "plain": "scrapy.pqueues.ScrapyPriorityQueue",
}
PLAIN_SETTINGS = {
    "CONCURRENT_REQUESTS": str(AT_ONCE),
    "CONCURRENT_REQUESTS_PER_DOMAIN": str(DEFAULT_CONCURRENCY),
    "DOWNLOAD_DELAY": "0",
    "ROBOTSTXT_OBEY": "False",
    "LOG_LEVEL": "WARNING",
}
RULE = ThrottleRule(hits=1_000_000, window_s=1, moderated=False, concurrency=DEFAULT_CONCURRENCY)
"""No rate but the site's own."""


@lru_cache(web.HOSTS)
def latency_s(address: str) -> float:
    """Return how long a host takes: as many between 50 and 100 ms as between 2.5 and 5 s."""
    chance = random.Random(address)
    return float(FASTEST_S * (SLOWEST_S / FASTEST_S) ** chance.random())


class UnevenSite(web.Site):
    """Answers each request after its host's time."""

    def data_received(self, data: bytes) -> None:
        """Answer later; a visitor waits for an answer before it asks again."""
        if data.startswith(b"GET /served "):
            super().data_received(data)
            return
        address = str(self._transport.get_extra_info("sockname")[0])
        later = partial(super().data_received, data)
        asyncio.get_running_loop().call_later(latency_s(address), later)


async def serve(port: int) -> None:
    """Serve until killed."""
    every_host = "0.0.0.0"  # noqa: S104  a thousand addresses of 127.0.0.0/8
    make = partial(UnevenSite, port, web.LINKS, web.PAGE_SIZE)
    server = await asyncio.get_running_loop().create_server(make, every_host, port, backlog=4096)
    await server.serve_forever()


def _served(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/served", timeout=30) as answer:
        return int(answer.read())


async def _speed(port: int, *argv: str, folder: str, env: Mapping[str, str]) -> float:
    """Return the pages per second of a warm crawler."""
    start = _served(port)
    with running(*argv, folder=folder, **env):
        while _served(port) == start:
            await asyncio.sleep(0.1)
        await asyncio.sleep(WARM_UP_S)
        pages, began = _served(port), time.monotonic()
        await asyncio.sleep(MEASURED_S)
        return (_served(port) - pages) / (time.monotonic() - began)


async def _cluster(redis: Redis, kafka: str, port: int, folder: str) -> float:
    await fresh_frontier(redis, seeds(port, web.HOSTS), rule=RULE)
    env = {**environment(redis, kafka, folder), "CONCURRENT_REQUESTS": str(AT_ONCE)}
    return await _speed(port, *CRAWLER, folder=folder, env=env)


async def _plain(queue: str, port: int, folder: str) -> float:
    settings = {**PLAIN_SETTINGS, "SCHEDULER_PRIORITY_QUEUE": queue}
    argv = plain_scrapy(PLAIN_SPIDER, seeds(port, web.HOSTS), settings, folder=folder)
    return await _speed(port, *argv, folder=folder, env={})


async def measure(redis: Redis) -> Figures:
    """Measure each crawler once, on a site of its own."""
    speeds: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder) as kafka:
            for name in ("ours", *QUEUES):
                port = free_block(1)
                site = (sys.executable, __file__, "serve", str(port))
                with running(*site, folder=folder):
                    while not await asyncio.to_thread(_answers, port):
                        await asyncio.sleep(0.05)
                    if name == "ours":
                        speeds[name] = await _cluster(redis, kafka, port, folder)
                    else:
                        speeds[name] = await _plain(QUEUES[name], port, folder)
    return {
        "times_aware_queue": speeds["ours"] / speeds["aware"],
        "times_plain_queue": speeds["ours"] / speeds["plain"],
        "pages_per_s": speeds["ours"],
        "aware_pages_per_s": speeds["aware"],
        "plain_pages_per_s": speeds["plain"],
    }


def _answers(port: int) -> bool:
    try:
        _served(port)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        uvloop.run(serve(int(sys.argv[2])))
    Benchmark(
        name="broad",
        about="1 000 domains of unequal speed: one worker beside plain Scrapy with either queue.",
        measure=measure,
        lines={
            "times_aware_queue": Line(floor=0.9, goal=1, unit="times", more=True),
            "times_plain_queue": Line(floor=1, goal=2, unit="times", more=True),
        },
        repetitions=1,
    ).main()
