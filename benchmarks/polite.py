"""How much of what the rules allow is used, and which windows are overrun: the site's log judges.

Two workers, 1 hit a second and domain, evenly spaced and in bursts; robots.txt is off, results go
to Kafka. 1 000 domains are 1 000 requests a second: what few cores cannot carry is not achieved
there, so 300 domains are measured beside them. CRAWLSTREAM_LONG=1: 100 s of each, 10^5 requests.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import islice, pairwise
from pathlib import Path

from calls import own_kafka, running
from harness import Benchmark, Figures, Line
from load import KEYS
from redis.asyncio import Redis

from crawlstream.cli.ports import free_block
from crawlstream.demo.visits import STAMP_TOLERANCE_S, read_visits
from crawlstream.frontier.frontier import INTAKE_PER_CALL, Frontier
from crawlstream.model.crawl import CrawlKey, Entry, Profile
from crawlstream.model.effects import IntakeBatch, Seed
from crawlstream.model.throttle import ThrottleRule, ThrottleTable
from crawlstream.model.url import fingerprint
from crawlstream.wire.stored import encode_entry

WORKERS = 2
DOMAINS = (1_000, 300)
MEASURED_S = 100 if os.environ.get("CRAWLSTREAM_LONG") == "1" else 20
WARM_UP_S = 8
FIRST_HOST = "127.4.0.1"
CRAWL = CrawlKey("link", "bench", "polite")
WINDOW_S = 1.0


@dataclass(frozen=True, slots=True)
class Setting:
    """How many domains, asked in which manner."""

    domains: int
    moderated: bool

    @property
    def name(self) -> str:
        """A figure's ending."""
        return f"{self.domains}_{'even' if self.moderated else 'burst'}"

    @property
    def table(self) -> ThrottleTable:
        """One hit a second for everybody."""
        rule = ThrottleRule(hits=1, window_s=WINDOW_S, moderated=self.moderated)
        return ThrottleTable(default=rule, czxid=1, mzxid=1)

    def hosts(self) -> list[str]:
        """An address each."""
        return [str(IPv4Address(FIRST_HOST) + n) for n in range(self.domains)]


def _seeds(setting: Setting, port: int) -> Iterator[Seed]:
    """More pages for each domain than it may be asked for."""
    profile = Profile()
    pages = int((MEASURED_S + WARM_UP_S) / WINDOW_S) + 5
    urls = ((host, f"http://{host}:{port}/{n}") for n in range(pages) for host in setting.hosts())
    for offset, (host, url) in enumerate(urls):
        yield Seed(
            offset=offset,
            timestamp_ms=1,
            crawl=CRAWL,
            domain=host,
            priority=1,
            fingerprint=fingerprint(url),
            entry=encode_entry(Entry(url=url)),
            profile=profile,
        )


async def _feed(frontier: Frontier, setting: Setting, port: int) -> None:
    fed = _seeds(setting, port)
    while seeds := list(islice(fed, INTAKE_PER_CALL)):
        start = seeds[0].offset
        batch = IntakeBatch(
            topic_id="in",
            kafka_partition=0,
            start=start,
            next=start + len(seeds),
            records=seeds,
        )
        await frontier.intake(batch)


def _judge(log: Path, setting: Setting, since_ms: float) -> Figures:
    """What the site saw: of the measured time how much, of the whole time what was too much."""
    arrivals: defaultdict[str, list[float]] = defaultdict(list)
    for visit in read_visits(log):
        arrivals[visit.host].append(visit.mono)
    window_ms = (WINDOW_S - STAMP_TOLERANCE_S) * 1000
    gaps = [b - a for times in arrivals.values() for a, b in pairwise(times)]
    until_ms = since_ms + MEASURED_S * 1000
    visits = sum(since_ms <= at < until_ms for times in arrivals.values() for at in times)
    return {
        f"achieved_{setting.name}": visits / (setting.domains * MEASURED_S / WINDOW_S),
        f"violations_{setting.name}": sum(gap < window_ms for gap in gaps),
        f"requests_{setting.name}": sum(map(len, arrivals.values())),
    }


async def _run(redis: Redis, setting: Setting, kafka: str, folder: str) -> Figures:
    await redis.flushall()
    frontier, port, log = Frontier(redis, KEYS), free_block(1), Path(folder) / setting.name
    await frontier.copy_rules(setting.table)
    await _feed(frontier, setting, port)
    size = ("--hosts", str(setting.domains), "--pages", str(setting.domains))
    where = ("--port", str(port), "--first-host", FIRST_HOST, "--log", str(log))
    site = (sys.executable, "-P", "-m", "crawlstream.demo", *where, *size, "--slow-pages", "0")
    env = {
        "REDIS_HOST": "127.0.0.1",
        "REDIS_PORT": str(redis.connection_pool.connection_kwargs["port"]),
        "KAFKA_HOSTS": kafka,
        "KAFKA_TOPIC_PREFIX": "bench",
        "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
        "CRAWLSTREAM_HOME": folder,
        "ROBOTSTXT_OBEY": "false",
        "LOG_LEVEL": "WARNING",
    }
    with ExitStack() as stack:
        stack.enter_context(running(*site, folder=folder))
        for _ in range(WORKERS):
            crawler = (sys.executable, "-P", "-m", "crawling", "link")
            stack.enter_context(running(*crawler, folder=folder, **env))
        while not read_visits(log):
            await asyncio.sleep(0.2)
        await asyncio.sleep(WARM_UP_S)
        since_ms = time.monotonic() * 1000
        await asyncio.sleep(MEASURED_S + 1)
    return _judge(log, setting, since_ms)


async def measure(redis: Redis) -> Figures:
    """One crawl in each setting."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder) as kafka:
            for domains in DOMAINS:
                for moderated in (True, False):
                    figures |= await _run(redis, Setting(domains, moderated), kafka, folder)
    return figures


if __name__ == "__main__":
    used = Line(floor=0.95, goal=0.985, unit="of allowed", more=True)
    none = Line(floor=0, goal=0, unit="windows")
    names = [Setting(domains, moderated).name for domains in DOMAINS for moderated in (True, False)]
    Benchmark(
        name="polite",
        about="Requests achieved of those allowed, and windows over their hits, by the site's log.",
        measure=measure,
        lines={
            **{f"achieved_{name}": used for name in names},
            **{f"violations_{name}": none for name in names},
        },
        repetitions=1,
    ).main()
