"""Crawlers at work on a synthetic web: how many pages they fetch, and what CPU time that takes.

Pages are counted by the site, CPU time by the kernel, process by process.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import psutil
from lib.load import KEYS, WIDE_OPEN
from lib.processes import environment, own_kafka, python_path, running
from lib.webs import ServedWeb, Web, seeds, serving
from redis.asyncio import Redis

from crawlstream.model.crawl import CrawlKey, Entry, Profile
from crawlstream.model.effects import IntakeBatch, Loss, Seed
from crawlstream.model.egress.pools import PoolTable
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.url import domain_key, fingerprint, host_of
from crawlstream.wire.stored import encode_entry
from crawlstream_frontier.frontier import Frontier

__all__ = ["CRAWL", "Speed", "Stage", "Web", "fresh_frontier", "seeds", "stage"]

CRAWL = CrawlKey("link", "bench", "crawl")
WARM_UP_PAGES = 300
MEASURED_S = 10
_SITE = "web.py"
"""End of the path of a program that serves a web."""
_ROLES = {"redis-server": "redis", "java": "kafka"}
_ROLE_OF_MODULE = {
    "kafka_monitor": "monitors",
    "redis_monitor": "monitors",
    "rest_service": "rest",
    "pipeline_service": "pipeline",
}


@dataclass(frozen=True, slots=True)
class Speed:
    """Figures of crawlers in the measured time."""

    pages_per_s: float
    cpu_ms: Mapping[str, float]
    """A page, by role: ``crawler``, ``redis``, ``kafka``, ``site``."""
    bytes_per_s: float = 0
    """Bytes of the bodies that the site sent; 0 where all pages have one size."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A web, a Kafka and a Redis, for one crawler after the other."""

    redis: Redis
    kafka: str
    web: ServedWeb
    folder: str
    measured_s: float = MEASURED_S
    codec: str = "gzip"
    """How results are packed."""

    async def cluster(self, spider: str = "link", *, workers: int = 1) -> Speed:
        """Measure ``workers`` cluster crawlers of one spider, from an empty frontier."""
        await self.prepare(spider)
        crawler = (sys.executable, "-P", "-m", "crawling", spider)
        return await self.speed(crawler, count=workers, env=self.environment)

    async def prepare(self, spider: str = "link", **profile: Any) -> Frontier:
        """A frontier that has nothing but seeds of this web; ``profile``: fields of theirs."""
        return await fresh_frontier(
            self.redis, self.web.seeds, spider=spider, hosts=self.web.hosts, **profile
        )

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment of the cluster's processes, including a spider that delivers nothing."""
        found = environment(self.redis, self.kafka, self.folder)
        path = python_path("benchmarks")
        ours = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "lib.quiet"}
        return {**found, **ours, "KAFKA_COMPRESSION": self.codec}

    async def speed(
        self,
        argv: Sequence[str],
        *,
        count: int = 1,
        env: Mapping[str, str] | None = None,
        at_the_edges: Callable[[Sequence[int]], Awaitable[None]] | None = None,
    ) -> Speed:
        """Measure several processes of a crawler, once all of them work.

        ``at_the_edges`` is called with their ids as the measured time begins, and as it ends.
        """
        served, sent = self.web.served, self.web.sent
        start = served()
        with ExitStack() as crawlers:
            start_one = partial(running, *argv, folder=self.folder, **(env or {}))
            pids = [crawlers.enter_context(start_one()) for _ in range(count)]
            while served() - start < WARM_UP_PAGES * count:
                await asyncio.sleep(0.1)
            if at_the_edges:
                await at_the_edges(pids)
            pages, size, began, spent = served(), sent(), time.monotonic(), _cpu_s()
            await asyncio.sleep(self.measured_s)
            pages, size, took_s = served() - pages, sent() - size, time.monotonic() - began
            spent = _cpu_s() - spent
            if at_the_edges:
                await at_the_edges(pids)
        cpu_ms = {role: seconds * 1000 / pages for role, seconds in spent.items()}
        return Speed(pages / took_s, cpu_ms, size / took_s)


async def fresh_frontier(
    redis: Redis,
    urls: Sequence[str],
    *,
    rule: ThrottleRule = WIDE_OPEN,
    spider: str = "link",
    hosts: Sequence[str] | None = None,
    **profile: Any,
) -> Frontier:
    """A frontier under one rule that has nothing but these seeds; links may lead to these hosts."""
    await redis.flushall()
    frontier = Frontier(redis, KEYS)
    await frontier.positions.restore(Loss(topic_id="in", kafka_partition=0, offset=0))
    # As a redis-monitor does, which copies pools first: without any, each page looks for them.
    await frontier.pools.copy(PoolTable(czxid=1, mzxid=1))
    await frontier.rules.copy(ThrottleTable(default=rule, czxid=1, mzxid=1))
    records = [
        Seed(
            offset=offset,
            timestamp_ms=1,
            crawl=replace(CRAWL, spiderid=spider),
            domain=domain_key(host_of(url)),
            priority=1,
            fingerprint=fingerprint(url),
            entry=encode_entry(Entry(url=url, origin=f"in-0-{offset}")),
            profile=Profile(
                seed_url=url,
                maxdepth=100,
                allowed_domains=tuple(hosts) if hosts else None,
                **profile,
            ),
        )
        for offset, url in enumerate(urls)
    ]
    await frontier.intake.apply(
        IntakeBatch(topic_id="in", kafka_partition=0, start=0, next=len(urls), records=records)
    )
    return frontier


def _cpu_s() -> Counter[str]:
    """CPU seconds that the processes of this benchmark have taken so far, by role."""
    spent: Counter[str] = Counter()
    for process in psutil.Process().children():
        times = process.cpu_times()
        spent[_role(process)] += times.user + times.system  # type: ignore[assignment]
    return spent


def _role(process: psutil.Process) -> str:
    words = process.cmdline()
    if words[0].startswith("nginx:") or any(word.endswith(_SITE) for word in words):
        return "site"
    others = [word for word in _ROLE_OF_MODULE if word in words]
    return _ROLE_OF_MODULE[others[0]] if others else _ROLES.get(process.name(), "crawler")


@asynccontextmanager
async def stage(
    redis: Redis, pages: Web, *, measured_s: float = MEASURED_S
) -> AsyncIterator[Stage]:
    """Everything that crawlers need."""
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder) as kafka, serving(pages, folder) as served_web:
            yield Stage(redis, kafka, served_web, folder, measured_s)
