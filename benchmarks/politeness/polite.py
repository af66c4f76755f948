"""Measure the used share of the rules' allowance, and overrun windows, by the site's log.

Two workers, 1 hit a window and domain, evenly spaced and in bursts; robots.txt is off, results go
to Kafka. 1 000 domains with windows of a second are 1 000 requests per second: few cores may not
achieve that. So two plain Scrapy processes with the same delay crawl the same domains in the same
run, and windows of ten seconds show what the scheduling itself loses.
CRAWLSTREAM_LONG=1: 120 s of each, 10^5 requests.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import islice, pairwise
from pathlib import Path

from lib.harness import Benchmark, Figures, Line
from lib.load import KEYS
from lib.processes import CRAWLER, environment, own_kafka, plain_scrapy, running
from redis.asyncio import Redis

from crawlstream.model.crawl import CrawlKey, Entry, Profile
from crawlstream.model.effects import IntakeBatch, Loss, Seed
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.url import fingerprint
from crawlstream.wire.stored import encode_entry
from crawlstream_cli.demo.access_log import STAMP_TOLERANCE_S, read_visits
from crawlstream_cli.local.ports import free_block
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.intake import RECORDS_PER_CALL

WORKERS = 2
DOMAINS = 1_000
WINDOWS_S = (10, 1)
LONG = os.environ.get("CRAWLSTREAM_LONG") == "1"
WARM_UP_S = 8
FIRST_HOST = "127.4.0.1"
CRAWL = CrawlKey("link", "bench", "polite")
PLAIN_SPIDER = """
import scrapy


class Plain(scrapy.Spider):
    name = "plain"
    handle_httpstatus_list = [404]  # most of what both ask for is not there

    def parse(self, response):
        start, _, number = response.url.rpartition("/")
        yield scrapy.Request(f"{start}/{int(number) + 1}", dont_filter=True)
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """How many domains, asked in which manner."""

    domains: int
    window_s: int
    moderated: bool

    @property
    def name(self) -> str:
        """A figure's ending."""
        return f"{self.domains}_{self.window_s}s_{'even' if self.moderated else 'burst'}"

    @property
    def measured_s(self) -> int:
        """Whole windows."""
        return 120 if LONG else max(10, 2 * self.window_s)

    @property
    def table(self) -> ThrottleTable:
        """Return a table of one hit per window for all domains."""
        rule = ThrottleRule(hits=1, window_s=self.window_s, moderated=self.moderated)
        return ThrottleTable(default=rule, czxid=1, mzxid=1)

    def hosts(self) -> list[str]:
        """An address each."""
        return [str(IPv4Address(FIRST_HOST) + n) for n in range(self.domains)]


def _seeds(setting: Setting, port: int) -> Iterator[Seed]:
    """More pages for each domain than it may be asked for."""
    profile = Profile()
    pages = (setting.measured_s + WARM_UP_S) // setting.window_s + 5
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
    while seeds := list(islice(fed, RECORDS_PER_CALL)):
        start = seeds[0].offset
        batch = IntakeBatch(
            topic_id="in",
            kafka_partition=0,
            start=start,
            next=start + len(seeds),
            records=seeds,
        )
        await frontier.intake.apply(batch)


def _judge(log: Path, setting: Setting, since_ms: float) -> tuple[float, int, int]:
    """Return from the site's log: the used share of the allowance, overrun windows, requests."""
    arrivals: defaultdict[str, list[float]] = defaultdict(list)
    for visit in read_visits(log):
        arrivals[visit.host].append(visit.mono)
    window_ms = (setting.window_s - STAMP_TOLERANCE_S) * 1000
    gaps = [b - a for times in arrivals.values() for a, b in pairwise(times)]
    until_ms = since_ms + setting.measured_s * 1000
    visits = sum(since_ms <= at < until_ms for times in arrivals.values() for at in times)
    allowed = setting.domains * setting.measured_s / setting.window_s
    overrun = sum(gap < window_ms for gap in gaps)
    return visits / allowed, overrun, sum(map(len, arrivals.values()))


@contextmanager
def _site(setting: Setting, port: int, log: Path) -> Iterator[None]:
    size = ("--hosts", str(setting.domains), "--pages", str(setting.domains))
    where = ("--port", str(port), "--first-host", FIRST_HOST, "--log", str(log))
    site = (sys.executable, "-P", "-m", "crawlstream_cli.demo", *where, *size, "--slow-pages", "0")
    with running(*site, folder=str(log.parent)):
        yield


async def _watch(log: Path, setting: Setting) -> float:
    """Wait until what was started has been seen for long enough; when it was warm."""
    while not read_visits(log):
        await asyncio.sleep(0.2)
    await asyncio.sleep(WARM_UP_S)
    since_ms = time.monotonic() * 1000
    await asyncio.sleep(setting.measured_s + 1)
    return since_ms


async def _plain(setting: Setting, folder: str) -> Figures:
    """As many processes of plain Scrapy, tuned for it, with half of the domains each."""
    port, log = free_block(1), Path(folder) / f"plain_{setting.name}"
    settings = {
        "DOWNLOAD_DELAY": f"{setting.window_s}",
        "RANDOMIZE_DOWNLOAD_DELAY": "False",
        "CONCURRENT_REQUESTS": f"{setting.domains}",
        "CONCURRENT_REQUESTS_PER_DOMAIN": "1",
        "ROBOTSTXT_OBEY": "False",
        "LOG_LEVEL": "WARNING",
    }
    hosts = setting.hosts()
    with ExitStack() as stack:
        stack.enter_context(_site(setting, port, log))
        for number in range(WORKERS):
            urls = [f"http://{host}:{port}/0" for host in hosts[number::WORKERS]]
            name = f"plain_{number}"
            crawler = plain_scrapy(PLAIN_SPIDER, urls, settings, folder=folder, name=name)
            stack.enter_context(running(*crawler, folder=folder))
        since_ms = await _watch(log, setting)
    achieved, overrun, _ = _judge(log, setting, since_ms)
    return {f"plain_achieved_{setting.name}": achieved, f"plain_violations_{setting.name}": overrun}


async def _run(redis: Redis, setting: Setting, kafka: str, folder: str) -> Figures:
    await redis.flushall()
    frontier, port, log = Frontier(redis, KEYS), free_block(1), Path(folder) / setting.name
    await frontier.positions.restore(Loss(topic_id="in", kafka_partition=0, offset=0))
    await frontier.rules.copy(setting.table)
    await _feed(frontier, setting, port)
    env = environment(redis, kafka, folder)
    with ExitStack() as stack:
        stack.enter_context(_site(setting, port, log))
        for _ in range(WORKERS):
            stack.enter_context(running(*CRAWLER, folder=folder, **env))
        since_ms = await _watch(log, setting)
    achieved, overrun, requests = _judge(log, setting, since_ms)
    return {
        f"achieved_{setting.name}": achieved,
        f"violations_{setting.name}": overrun,
        f"requests_{setting.name}": requests,
    }


async def measure(redis: Redis, domains: int) -> Figures:
    """Measure one crawl in each setting, and plain Scrapy in the hardest."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder) as kafka:
            for setting in _settings(domains):
                figures |= await _run(redis, setting, kafka, folder)
        figures |= await _plain(Setting(domains, WINDOWS_S[-1], moderated=True), folder)
    return figures


def _settings(domains: int) -> list[Setting]:
    return [Setting(domains, window_s, even) for window_s in WINDOWS_S for even in (True, False)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--domains", type=int, default=DOMAINS)
    options, rest = parser.parse_known_args()
    used = Line(floor=0.95, goal=0.985, unit="of allowed", more=True)
    none = Line(floor=0, goal=0, unit="windows")
    names = [setting.name for setting in _settings(options.domains)]
    Benchmark(
        name="polite",
        about="Requests achieved of those allowed, and windows over their hits, by the site's log.",
        measure=lambda redis: measure(redis, options.domains),
        lines={
            **{f"achieved_{name}": used for name in names},
            **{f"violations_{name}": none for name in names},
        },
        repetitions=1,
    ).main(rest)
