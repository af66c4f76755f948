"""Crawlers at work on a synthetic web: how many pages they fetch, and what CPU time that takes.

Pages are counted by the site, CPU time by the kernel, process by process.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

import psutil
import web
from calls import feed, own_kafka, running, seeds
from load import KEYS, WIDE_OPEN
from redis.asyncio import Redis

from crawlstream.cli.home import repository
from crawlstream.cli.ports import free_block
from crawlstream.frontier.frontier import Frontier
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.throttle import ThrottleTable

WARM_UP_PAGES = 300
MEASURED_S = 10
SETTINGS = {
    "ROBOTSTXT_OBEY": "false",
    "LOG_LEVEL": "WARNING",
    "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
    # A spider that delivers nothing; it lies beside this file.
    "CRAWLSTREAM_SPIDER_MODULES": "quiet",
}
_ROLES = {"redis-server": "redis", "java": "kafka"}


@dataclass(frozen=True, slots=True)
class Web:
    """What the pages look like."""

    links: int = web.LINKS
    size: int = web.PAGE_SIZE


@dataclass(frozen=True, slots=True)
class Speed:
    """What crawlers did in the measured time."""

    pages_per_s: float
    cpu_ms: Mapping[str, float]
    """A page, by role: ``crawler``, ``redis``, ``kafka``, ``site``."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A web, a Kafka and a Redis, for one crawler after the other."""

    redis: Redis
    kafka: str
    port: int
    """Of the web."""
    folder: str

    async def cluster(self, spider: str = "link", *, workers: int = 1) -> Speed:
        """So many of our crawlers, of one spider, from an empty frontier."""
        await self.redis.flushall()
        frontier = Frontier(self.redis, KEYS)
        await frontier.copy_rules(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
        await feed(frontier, seeds(self.port), CrawlKey(spider, "bench", "crawl"))
        crawler = (sys.executable, "-P", "-m", "crawling", spider)
        return await self.speed(crawler, count=workers, env={**SETTINGS, **self.environment})

    @property
    def environment(self) -> Mapping[str, str]:
        """Where our processes find everything."""
        return {
            "PYTHONPATH": python_path("benchmarks"),
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(self.redis.connection_pool.connection_kwargs["port"]),
            "KAFKA_HOSTS": self.kafka,
            "KAFKA_TOPIC_PREFIX": "bench",
            "CRAWLSTREAM_HOME": self.folder,
        }

    async def speed(
        self, argv: Sequence[str], *, count: int = 1, env: Mapping[str, str] | None = None
    ) -> Speed:
        """So many processes of a crawler, once all of them are at work."""
        start = self.served()
        with ExitStack() as crawlers:
            for _ in range(count):
                crawlers.enter_context(running(*argv, folder=self.folder, **(env or {})))
            while self.served() - start < WARM_UP_PAGES * count:
                await asyncio.sleep(0.1)
            pages, began, spent = self.served(), time.monotonic(), _cpu_s()
            await asyncio.sleep(MEASURED_S)
            pages, took_s = self.served() - pages, time.monotonic() - began
            spent = _cpu_s() - spent
        cpu_ms = {role: seconds * 1000 / pages for role, seconds in spent.items()}
        return Speed(pages / took_s, cpu_ms)

    def served(self) -> int:
        """How many pages have been asked for so far."""
        url = f"http://127.0.0.1:{self.port}/served"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return int(answer.read())

    def answers(self) -> bool:
        """Whether the web is there."""
        try:
            self.served()
        except OSError:
            return False
        return True


def python_path(folder: str) -> str:
    """PYTHONPATH with a folder of the repository before what the environment says."""
    folders = (str(repository() / folder), os.environ.get("PYTHONPATH"))
    return os.pathsep.join(filter(None, folders))


def _cpu_s() -> Counter[str]:
    """CPU seconds that the processes of this benchmark have taken so far, by role."""
    spent: Counter[str] = Counter()
    for process in psutil.Process().children():
        times = process.cpu_times()
        role = "site" if web.__file__ in process.cmdline() else "crawler"
        spent[_ROLES.get(process.name(), role)] += times.user + times.system  # type: ignore[assignment]
    return spent


@asynccontextmanager
async def stage(redis: Redis, pages: Web) -> AsyncIterator[Stage]:
    """Everything that crawlers need."""
    port = free_block(1)
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        site = (sys.executable, web.__file__, str(port), str(pages.links), str(pages.size))
        async with own_kafka(folder) as kafka:
            with running(*site, folder=folder):
                made = Stage(redis, kafka, port, folder)
                while not await asyncio.to_thread(made.answers):
                    await asyncio.sleep(0.05)
                yield made
