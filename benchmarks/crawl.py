"""One crawler of the cluster beside plain ``scrapy crawl``, on the same web in the same minute.

Pages are counted by the site, CPU time by the kernel: of the crawler's process, and of Redis for
the cluster's. Both follow every link and deliver every page, the cluster's to Kafka. Plain Scrapy
runs with the defaults of 2.19, its log at WARNING like the cluster's, and keeps none of its items.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import web
from calls import SEEDS, feed, own_kafka, running
from harness import Benchmark, Figures, Line
from load import KEYS, WIDE_OPEN
from redis.asyncio import Redis

from crawlstream.cli.ports import free_block
from crawlstream.frontier.frontier import Frontier
from crawlstream.model.throttle import ThrottleTable

WARM_UP_PAGES = 300
MEASURED_S = 10
PLAIN_SPIDER = """
import sys

import scrapy
from scrapy.linkextractors import LinkExtractor


class Plain(scrapy.Spider):
    name = "plain"
    links = LinkExtractor()

    def parse(self, response):
        links = self.links.extract_links(response)
        yield {"url": response.url, "body": response.text, "links": [each.url for each in links]}
        for each in links:
            yield scrapy.Request(each.url)
"""
CLUSTER_SETTINGS = {
    "ROBOTSTXT_OBEY": "false",
    "LOG_LEVEL": "WARNING",
    "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
}
PLAIN_SETTINGS = ("ROBOTSTXT_OBEY=False", "LOG_LEVEL=WARNING")


@dataclass(frozen=True, slots=True)
class Web:
    """What the pages look like."""

    links: int = web.LINKS
    size: int = web.PAGE_SIZE


@dataclass(frozen=True, slots=True)
class Speed:
    """What one crawler did in the measured time."""

    pages_per_s: float
    cpu_ms_a_page: float


def _served(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/served", timeout=30) as answer:
        return int(answer.read())


def _cpu_s(argv: Sequence[str], redis_s: float) -> float:
    """CPU time of the process that was started so, plus that of Redis."""
    for process in psutil.Process().children():
        if process.cmdline()[: len(argv)] == list(argv):
            times = process.cpu_times()
            return float(times.user + times.system) + redis_s
    raise RuntimeError(f"{argv} does not run")


async def _redis_s(redis: Redis | None) -> float:
    if redis is None:
        return 0.0
    info = await redis.info("cpu")
    return float(info["used_cpu_user"] + info["used_cpu_sys"])


async def _speed(
    argv: Sequence[str], port: int, redis: Redis | None, *, folder: str, env: Mapping[str, str]
) -> Speed:
    start = _served(port)
    with running(*argv, folder=folder, **env):
        while _served(port) - start < WARM_UP_PAGES:
            await asyncio.sleep(0.1)
        pages, began = _served(port), time.monotonic()
        cpu_s = _cpu_s(argv, await _redis_s(redis))
        await asyncio.sleep(MEASURED_S)
        pages, took_s = _served(port) - pages, time.monotonic() - began
        cpu_s = _cpu_s(argv, await _redis_s(redis)) - cpu_s
    return Speed(pages / took_s, cpu_s * 1000 / pages)


async def _cluster(redis: Redis, kafka: str, port: int, folder: str) -> Speed:
    frontier = Frontier(redis, KEYS)
    await frontier.copy_rules(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
    await feed(frontier, port)
    env = {
        **CLUSTER_SETTINGS,
        "REDIS_HOST": "127.0.0.1",
        "REDIS_PORT": str(redis.connection_pool.connection_kwargs["port"]),
        "KAFKA_HOSTS": kafka,
        "KAFKA_TOPIC_PREFIX": "bench",
        "CRAWLSTREAM_HOME": folder,
    }
    crawler = (sys.executable, "-P", "-m", "crawling", "link")
    return await _speed(crawler, port, redis, folder=folder, env=env)


async def _plain(port: int, folder: str) -> Speed:
    seeds = [web.url(port, host, 0) for host in range(SEEDS)]
    code = f"{PLAIN_SPIDER}\n    start_urls = {seeds!r}\n"
    await asyncio.to_thread((Path(folder) / "plain.py").write_text, code)
    settings = [part for each in PLAIN_SETTINGS for part in ("-s", each)]
    argv = (sys.executable, "-P", "-m", "scrapy", "runspider", "plain.py", *settings)
    return await _speed(argv, port, None, folder=folder, env={})


async def compare(redis: Redis, pages: Web) -> Figures:
    """One turn of each crawler."""
    port = free_block(1)
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        site = (sys.executable, web.__file__, str(port), str(pages.links), str(pages.size))
        async with own_kafka(folder) as kafka:
            with running(*site, folder=folder):
                while not await asyncio.to_thread(_answers, port):
                    await asyncio.sleep(0.05)
                plain = await _plain(port, folder)
                ours = await _cluster(redis, kafka, port, folder)
    return {
        "times_plain_scrapy": ours.pages_per_s / plain.pages_per_s,
        "cpu_of_plain_scrapy": ours.cpu_ms_a_page / plain.cpu_ms_a_page,
        "pages_per_s": ours.pages_per_s,
        "plain_pages_per_s": plain.pages_per_s,
        "cpu_ms_a_page": ours.cpu_ms_a_page,
        "plain_cpu_ms_a_page": plain.cpu_ms_a_page,
    }


def _answers(port: int) -> bool:
    try:
        _served(port)
    except OSError:
        return False
    return True


def benchmark(name: str, about: str, pages: Web, **lines: Line) -> Benchmark:
    """A benchmark of both crawlers, judged by some of its figures."""
    settings = f"cluster {CLUSTER_SETTINGS}, plain Scrapy {PLAIN_SETTINGS}"
    return Benchmark(
        name=name,
        about=f"{about} Settings: {settings}.",
        measure=lambda redis: compare(redis, pages),
        lines=lines,
        repetitions=2,
    )


if __name__ == "__main__":
    benchmark(
        "crawl",
        "One worker beside plain Scrapy: 1 000 hosts, 20 links, 1 KB.",
        Web(),
        times_plain_scrapy=Line(floor=2.5, goal=5, unit="times", more=True),
    ).main()
