"""Feeders of a schedule die in turns, and its Redis is emptied: each seed is fetched once a firing.

The site's log is the referee. ``RECUR_SECONDS=600`` asks for the long proof: a thousand seeds each
minute; what it came to is logged.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import structlog
from redis.asyncio import Redis

from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, Page, SeenRequest, page, serving
from crawlstream_chaos.witness import Witness
from crawlstream_frontier.frontier import Frontier
from support import servers
from support.monitors import MonitorCluster, MonitorProcess, Servers
from support.recurring.house import House
from support.waiting import wait_until

LONG_S = int(os.environ.get("RECUR_SECONDS", "0"))
SEEDS, CRON, LIVES_S = (1_000, "0 * * * * *", 12.0) if LONG_S else (60, "*/4 * * * * *", 2.0)
"""Seeds, their times, and the longest life of a redis-monitor."""
FIRINGS, DEATHS = 4, 4
"""Goals of the short form."""
STEPS = ("", "amid_fire:kill", "", "after_fire:kill", "", "before_fire:kill")
"""Where the next redis-monitor dies by itself if it comes so far; all are killed in their turn."""
APP = "kills"

log = structlog.get_logger()


class News(CrawlerSite):
    """Hubs that link to an article each, and at every second visit to a new one."""

    def __init__(self, pages: object) -> None:
        del pages
        super().__init__({})
        self.linked: list[tuple[str, float]] = []
        """Each article, as often as it was linked, and when."""
        self._hubs: Counter[str] = Counter()
        self._lock = threading.Lock()

    def page_at(self, host: str, path: str) -> Page:
        """All is there."""
        del host, path
        return self._page

    def _page(self, visit: SeenRequest) -> Answer:
        if not visit.path.startswith("/hub/"):
            return page()
        with self._lock:
            article = f"{visit.path.replace('hub', 'article')}/{self._hubs[visit.path] // 2}"
            self._hubs[visit.path] += 1
            self.linked.append((article, visit.at))
        return page(article)


class Deaths:
    """Two redis-monitors, of which one after the other dies and another one takes its place."""

    def __init__(self, house: House, stack: ExitStack) -> None:
        self._house = house
        self._stack = stack
        self._random = random.Random(7)
        self._steps = itertools.cycle(STEPS)
        self.count = 0

    async def go_on(self, stop: asyncio.Event) -> None:
        """Until then; those that live in the end die of nothing."""
        alive = [self._begin(), self._begin()]
        while not stop.is_set():
            await asyncio.sleep(self._random.uniform(0.1, LIVES_S))
            alive.pop(0).kill()
            self.count += 1
            alive.append(self._begin(next(self._steps)))
            await wait_until(partial(_is_up_or_dead, alive[-1]))
        self._begin()

    def _begin(self, step: str = "") -> MonitorProcess:
        env = {"FAILPOINT": step} if step else {}
        return self._stack.enter_context(self._house.redis_monitor(**env))


def _is_up_or_dead(monitor: MonitorProcess) -> bool:
    return monitor.starts() > 0 or not monitor.is_running()


async def fired(house: House) -> int:
    """Number of firings of the schedule, once no firing and no crawl of it is running."""

    async def is_quiet() -> bool:
        async with Redis(port=house.cluster.redis_port) as redis:
            frontier = Frontier(redis, house.cluster.keys)
            state = await frontier.schedules.one(APP, "news")
            if state is None or state.begun or state.is_awaited or state.last_crawl is None:
                return False
            crawl = await frontier.queries.crawl_state(state.last_crawl, with_domains=False)
            untold = await redis.xlen(house.cluster.keys.outbox())
        firings = len(house.events(APP, "schedule_fired"))
        endings = len(house.events(APP, "crawl_finished"))
        is_over = crawl is not None and not crawl.is_under_way
        return is_over and not untold and firings == endings

    await wait_until(is_quiet, timeout_s=120, every_s=0.05)
    return len(house.events(APP, "schedule_fired"))


async def emptied(house: House) -> float:
    """Empty Redis between two firings; answers when."""
    await house.say(APP, "pause")
    await fired(house)
    async with Redis(port=house.cluster.redis_port) as redis:
        at = time.time()
        await redis.flushall()
        frontier = Frontier(redis, house.cluster.keys)

        async def is_back() -> bool:
            return await frontier.schedules.one(APP, "news") is not None

        await wait_until(is_back)
    await house.say(APP, "resume")
    return at


async def lasting(house: House, deaths: Deaths) -> float:
    """As long as the proof takes, with Redis emptied amid it; answers when that was."""
    ends = time.monotonic() + LONG_S

    def is_half() -> bool:
        firings = len(house.events(APP, "schedule_fired"))
        return firings >= FIRINGS / 2 and time.monotonic() > ends - LONG_S / 2

    def is_over() -> bool:
        firings = len(house.events(APP, "schedule_fired"))
        enough = firings >= FIRINGS and deaths.count >= DEATHS
        return enough and time.monotonic() > ends

    await wait_until(is_half, timeout_s=LONG_S + 120, every_s=0.2)
    at = await emptied(house)
    await wait_until(is_over, timeout_s=LONG_S + 120, every_s=0.2)
    return at


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Resources that end with the test."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def house(
    kafka_server: RunningServer,
    zookeeper_server: RunningServer,
    fresh_name: str,
    tmp_path: Path,
    stack: ExitStack,
) -> House:
    """A Redis of this test's own, a kafka-monitor and a crawler."""
    (home := tmp_path / "monitors").mkdir()
    redis_server = stack.enter_context(servers.redis(tmp_path / "redis"))
    used = Servers(redis_server, kafka_server, zookeeper_server)
    cluster = MonitorCluster(used, name=f"kills{fresh_name}", home=home)
    witness = Witness(cluster.kafka_hosts, cluster.prefix)
    stack.callback(witness.close)
    site = stack.enter_context(serving({}, News))
    house = House(cluster, witness, site, tmp_path)
    stack.enter_context(cluster.kafka_monitor(**house.options))
    stack.enter_context(cluster.crawler("link"))
    return house


async def test_each_seed_is_fetched_once_a_firing_whoever_dies(
    house: House, stack: ExitStack
) -> None:
    """Fetches each seed once a firing, and each article once while Redis remembers it."""
    site = house.site
    assert isinstance(site, News)
    deaths, stop = Deaths(house, stack), asyncio.Event()
    dying = asyncio.create_task(deaths.go_on(stop))
    seeds = [site.url(f"/hub/{n}", f"127.0.1.{n % 200 + 1}") for n in range(SEEDS)]
    crawl = {"crawlid": "news", "maxdepth": 1, "remember": 86_400}
    await house.say(APP, "set", cron=CRON, crawl=crawl, seeds=seeds)
    emptied_at = await lasting(house, deaths)
    await house.say(APP, "pause")
    stop.set()
    await dying
    firings = await fired(house)
    judge(site, firings, emptied_at)
    log.info("proof", deaths=deaths.count, **told(house, firings))


def judge(site: News, firings: int, emptied_at: float) -> None:
    """The site got exactly the requests that were due."""
    visits = Counter(visit.path for visit in site.visits)
    hubs = {path: count for path, count in visits.items() if path.startswith("/hub/")}
    assert len(hubs) == SEEDS
    assert set(hubs.values()) == {firings}, Counter(hubs.values())
    lives = {(article, at > emptied_at) for article, at in site.linked}
    due = Counter(article for article, _ in lives)
    articles = Counter({path: n for path, n in visits.items() if path.startswith("/article/")})
    assert articles == due
    assert len(articles) > SEEDS


def told(house: House, firings: int) -> dict[str, object]:
    """The figures of a proof."""
    skips = house.events(APP, "schedule_skipped")
    reasons = Counter({one["reason"]: 0 for one in skips})
    for one in skips:
        reasons[one["reason"]] += one["count"]
    late = [one["late_s"] for one in house.events(APP, "schedule_fired")]
    fetched = len(house.site.visits)
    return {"firings": firings, "skips": dict(reasons), "latest_s": max(late), "visits": fetched}
