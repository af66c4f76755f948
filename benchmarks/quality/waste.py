"""Compare crawls of sites with and without traps, with the waste guard and without, and by Scrapy.

The sites are generated, and each is served on an address of its own. All of them are crawled at
once, at one pace. A site with a trap is counted up to ``BUDGET`` fetches, as it may have no end;
honest sites that look like traps are crawled to their end: no page of them may be lost. A page is
worth having if its content is: the site knows, the crawler does not.

``WASTE_SCENES=on-4,scrapy`` crawls in these scenes only. A scene ends after ``WASTE_MINUTES`` (60);
``open`` is the number of sites whose crawls had not ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from crawl import PLAIN_SPIDER
from lib.crawlers import CRAWL
from lib.harness import Benchmark, Figures, Line
from lib.load import KEYS
from lib.processes import CRAWLER, environment, own_kafka, plain_scrapy, running
from redis.asyncio import Redis

from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.effects import IntakeBatch, Loss, Seed
from crawlstream.model.egress.pools import PoolTable
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.url import domain_key, fingerprint, host_of
from crawlstream.wire.stored import encode_entry
from crawlstream_chaos.scripted_site import serving
from crawlstream_chaos.waste_sites.honest import HONEST
from crawlstream_chaos.waste_sites.served import ManySites, SiteLog
from crawlstream_chaos.waste_sites.traps import (
    Calendar,
    GrowingPaths,
    Orders,
    Searches,
    SessionIds,
    SoftErrors,
)
from crawlstream_frontier.frontier import Frontier

TRAPS = (Calendar, SessionIds, Orders, GrowingPaths, SoftErrors, Searches)
BUDGET = 3_000
RULE = ThrottleRule(hits=50, window_s=1, concurrency=8)
KILL_EVERY = 1_500
"""Fetches after which a crawler is killed, and another one started."""
PLAIN_SETTINGS = {
    "ROBOTSTXT_OBEY": "False",
    "LOG_LEVEL": "WARNING",
    "CONCURRENT_REQUESTS": "64",
    "CONCURRENT_REQUESTS_PER_DOMAIN": str(RULE.concurrency),
    "DOWNLOAD_DELAY": "0.02",
    "DEPTH_PRIORITY": "1",
    # Without it, sites whose pages lie deep would wait for all others.
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
}
"""The pace of the rule, breadth first as its documentation says."""
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Scene:
    """A way to crawl the sites; ``workers`` 0: by plain Scrapy."""

    guard: str = "off"
    workers: int = 0
    kills: bool = False
    is_whole: bool = False
    """True if the honest sites are crawled, too."""


SCENES: Mapping[str, Scene] = {
    "scrapy": Scene(),
    "off-1": Scene("off", 1),
    "on-1": Scene("on", 1),
    "on-4": Scene("on", 4),
    "on-4-kills": Scene("on", 4, kills=True, is_whole=True),
}


class Crew:
    """Crawlers of the cluster, of which one after the other can be killed."""

    def __init__(self, workers: ExitStack, env: Mapping[str, str], folder: str) -> None:
        self._workers = workers
        self._env = env
        self._folder = folder
        self._pids = deque[int]()
        self.kills = 0

    def start(self) -> None:
        """Start a crawler."""
        worker = running(*CRAWLER, folder=self._folder, **self._env)
        self._pids.append(self._workers.enter_context(worker))

    def replace(self) -> None:
        """Kill the crawler that has been there longest, and start another one."""
        os.kill(self._pids.popleft(), signal.SIGKILL)
        self.kills += 1
        self.start()


async def _feed(redis: Redis, urls: Mapping[str, str], guard: str) -> Frontier:
    """Return a frontier with a seed of each site, a crawl each."""
    await redis.flushall()
    frontier = Frontier(redis, KEYS)
    await frontier.positions.restore(Loss(topic_id="in", kafka_partition=0, offset=0))
    await frontier.pools.copy(PoolTable(czxid=1, mzxid=1))
    await frontier.rules.copy(ThrottleTable(default=RULE, czxid=1, mzxid=1))
    seeds = [
        Seed(
            offset=offset,
            timestamp_ms=1,
            crawl=replace(CRAWL, crawlid=host),
            domain=domain_key(host_of(url)),
            priority=1,
            fingerprint=fingerprint(url),
            entry=encode_entry(Entry(url=url, origin=f"in-0-{offset}")),
            profile=Profile(seed_url=url, maxdepth=300, guard=guard),
        )
        for offset, (host, url) in enumerate(urls.items())
    ]
    batch = IntakeBatch(topic_id="in", kafka_partition=0, start=0, next=len(seeds), records=seeds)
    await frontier.intake.apply(batch)
    return frontier


def _most_s() -> float:
    """Return how long a scene may take."""
    return float(os.environ.get("WASTE_MINUTES", "60")) * 60


async def _is_over(frontier: Frontier, log: SiteLog, host: str) -> bool:
    if not log.site.is_honest and log.fetches >= BUDGET:
        return True
    state = await frontier.queries.crawl_state(replace(CRAWL, crawlid=host))
    return state is not None and bool(state.admitted) and not (state.pending or state.held)


async def _all_over(frontier: Frontier, crew: Crew, scene: Scene) -> None:
    """Wait until each site has ended or has had its budget, killing crawlers meanwhile."""
    blocked = dict[str, ThrottleRule]()
    left = dict(ManySites.logs)
    deadline = time.monotonic() + _most_s()
    while left and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_S)
        over = [host for host, log in left.items() if await _is_over(frontier, log, host)]
        for host in over:
            left.pop(host).is_over = True
            blocked[host] = replace(RULE, hits=0)
        if over:
            version = len(blocked) + 1
            table = ThrottleTable(default=RULE, rules=blocked, czxid=1, mzxid=version)
            await frontier.rules.copy(table)
        fetches = sum(each.fetches for each in ManySites.logs.values())
        if scene.kills and fetches >= (crew.kills + 1) * KILL_EVERY:
            crew.replace()
        await frontier.maintenance.tend()


async def _all_fetched() -> None:
    """Wait until each site has had its budget, or the time is over."""
    deadline = time.monotonic() + _most_s()
    while time.monotonic() < deadline:
        for log in ManySites.logs.values():
            log.is_over = log.fetches >= BUDGET
        if all(log.is_over for log in ManySites.logs.values()):
            return
        await asyncio.sleep(_LOOK_S)


async def _crawl(redis: Redis, kafka: str, folder: str, scene: Scene) -> Mapping[str, SiteLog]:
    """Crawl sites until each has ended, or has had its budget.

    Return their logs, keyed by the name of the site.
    """
    kinds = (*TRAPS, *HONEST) if scene.is_whole else TRAPS
    ManySites.host({f"127.0.1.{n}": kind() for n, kind in enumerate(kinds, 1)})
    with serving({}, ManySites) as web, ExitStack() as workers:
        urls = {host: web.url("/", host) for host in ManySites.logs}
        if scene.workers:
            frontier = await _feed(redis, urls, scene.guard)
            crew = Crew(workers, environment(redis, kafka, folder), folder)
            for _ in range(scene.workers):
                crew.start()
            await _all_over(frontier, crew, scene)
        else:
            hosts = [url.split("/")[2] for url in urls.values()]
            spider = PLAIN_SPIDER.format(hosts=hosts)
            argv = plain_scrapy(spider, list(urls.values()), PLAIN_SETTINGS, folder=folder)
            workers.enter_context(running(*argv, folder=folder))
            await _all_fetched()
    return {log.site.name: log for log in ManySites.logs.values()}


def _figures(logs: Mapping[str, SiteLog], name: str) -> dict[str, float]:
    """Return the means of the sites with traps, and what each site took."""
    traps = [log for log in logs.values() if not log.site.is_honest]
    honest = [log for log in logs.values() if log.site.is_honest]
    figures: dict[str, float] = {
        f"share_{name}": statistics.mean(log.share(BUDGET) for log in traps),
        f"until_95_{name}": statistics.mean(
            log.until(0.95, BUDGET) / log.site.size for log in traps
        ),
        f"lost_{name}": sum(log.lost for log in honest if log.is_over),
        f"lost_in_traps_{name}": sum(
            log.lost for log in traps if log.is_over and log.fetches < BUDGET
        ),
        f"open_{name}": sum(not log.is_over for log in logs.values()),
    }
    for log in logs.values():
        site = f"{log.site.name.replace(' ', '_')}_{name}"
        figures[f"{site}_fetches"] = log.fetches
        figures[f"{site}_missing"] = log.lost
        figures[f"{site}_until_95"] = log.until(0.95, log.fetches) / log.site.size
    return figures


async def measure(redis: Redis) -> Figures:
    """Crawl the sites in each scene."""
    figures: dict[str, float] = {}
    wanted = os.environ.get("WASTE_SCENES", ",".join(SCENES)).split(",")
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder) as kafka:
            for name in wanted:
                logs = await _crawl(redis, kafka, folder, SCENES[name])
                figures |= _figures(logs, name.replace("-", "_"))
    return figures


_LINES = {
    "until_95_on_1": Line(floor=1.50, goal=1.20, unit="fetches a page"),
    "until_95_on_4": Line(floor=1.50, goal=1.20, unit="fetches a page"),
    "until_95_on_4_kills": Line(floor=1.50, goal=1.20, unit="fetches a page"),
    "lost_on_4_kills": Line(floor=0, goal=0, unit="pages"),
    "lost_in_traps_on_1": Line(floor=0, goal=0, unit="pages"),
    "lost_in_traps_on_4": Line(floor=0, goal=0, unit="pages"),
    "lost_in_traps_on_4_kills": Line(floor=0, goal=0, unit="pages"),
}


def _lines() -> Mapping[str, Line]:
    """Return the lines of the scenes that are crawled."""
    wanted = os.environ.get("WASTE_SCENES", ",".join(SCENES)).replace("-", "_").split(",")
    ends = tuple(f"_{scene}" for scene in wanted)
    return {name: line for name, line in _LINES.items() if name.endswith(ends)}


if __name__ == "__main__":
    Benchmark(
        name="waste",
        about="Requests for pages worth having, with and without the waste guard.",
        measure=measure,
        lines=_lines(),
        repetitions=1,
    ).main()
