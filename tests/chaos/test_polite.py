"""No window of any site exceeds its hits, whatever happens to those who ask; the sites' logs judge.

In CI every fault strikes a few times in one crawl. With CRAWLSTREAM_LONG=1 each has a crawl of its
own, in which it strikes as often, and as long, as it is meant to be outlived.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path

import pytest
from redis.asyncio import Redis

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.web.throttle_groups import AddressLimits, Group, Groups
from crawlstream.tasks import beside
from crawlstream_chaos.processes import LoggedCrawler, RunningServer
from crawlstream_chaos.scripted_site import HTML, Answer, CrawlerSite, serving
from support.crawler.cluster import CrawlerCluster
from support.waiting import PATIENCE_S

LONG = os.environ.get("CRAWLSTREAM_LONG") == "1"
PAGES = 8_000 if LONG else 600
"""On each host: more than will be asked for."""
STAMP_S = 0.001
"""The site's stamps may be so much off."""
EFFECTIVE_S = 2.0
"""A lowered rule counts for windows that begin so long after the edit."""

EVEN, BURST, SLOW_EVEN, SLOW_BURST, LOWERED = (f"127.3.0.{n}" for n in range(1, 6))
RULES = {
    EVEN: ThrottleRule(hits=10, window_s=1),
    BURST: ThrottleRule(hits=6, window_s=2, moderated=False),
    SLOW_EVEN: ThrottleRule(hits=5, window_s=1),
    SLOW_BURST: ThrottleRule(hits=4, window_s=1, moderated=False),
    LOWERED: ThrottleRule(hits=20, window_s=1, moderated=False),
}
TO = ThrottleRule(hits=2, window_s=1)
NETWORK = ThrottleRule(hits=7, window_s=1, moderated=False)
"""All hosts of one network together; each has the rule of :data:`EVEN`."""
ADDRESS = ThrottleRule(hits=9, window_s=1, moderated=False)
"""Each other address, besides the rule of its host."""
IN_NETWORK = tuple(f"127.3.1.{n}" for n in range(1, 4))
GATES = Groups(
    {"network": Group(rule=NETWORK, members=(), networks=(ip_network("127.3.1.0/24"),))},
    AddressLimits(rule=ADDRESS),
)
SHIFT_CLOCK = """
import os, time
now, now_ns, shift = time.time, time.time_ns, int(os.environ["SHIFT_CLOCK_S"])
time.time = lambda: now() + shift
time.time_ns = lambda: now_ns() + shift * 10**9
"""
"""Run by Python before anything else; under libfaketime kafka-python's waits fail."""


class LateSite(CrawlerSite):
    """Takes one visitor in a tenth of a second; few may queue, the others have to knock again."""

    def serve(self) -> None:
        """Take visitors, until closed."""
        self._listener.listen(2)
        with suppress(OSError):
            while True:
                visitor, _ = self._listener.accept()
                threading.Thread(target=self._talk, args=(visitor,), daemon=True).start()
                time.sleep(0.1)


@dataclass
class Crowd:
    """Two workers that crawl eight hosts, and the hands that upset them."""

    cluster: CrawlerCluster
    sites: tuple[CrawlerSite, CrawlerSite]
    workers: list[LoggedCrawler]
    redis_server: RunningServer
    lowered_at: float = float("inf")
    strikes: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    async def feed(self) -> None:
        """Give every host more pages than it will be asked for."""
        for host in (*RULES, *IN_NETWORK):
            site = self.sites[host in {SLOW_EVEN, SLOW_BURST}]
            urls = [site.url(f"/{n}", host=host) for n in range(PAGES)]
            for start in range(0, PAGES, 200):
                await self.cluster.feed(*urls[start : start + 200], crawlid=f"crowd-{host}")

    def arrivals(self) -> dict[str, list[float]]:
        """Epoch seconds of the visits of each host."""
        times: dict[str, list[float]] = {host: [] for host in (*RULES, *IN_NETWORK)}
        for site in self.sites:
            for visit in list(site.visits):
                times[visit.host].append(visit.at)
        return {host: sorted(at) for host, at in times.items()}

    async def progress(self, more: int = 10) -> None:
        """Wait until ``more`` pages were requested."""
        wanted = self.visits() + more
        deadline = time.monotonic() + PATIENCE_S + more
        while self.visits() < wanted:
            assert time.monotonic() < deadline, f"{wanted - self.visits()} of {more} are missing"
            await asyncio.sleep(0.05)

    async def see_all(self, windows: int) -> None:
        """Wait until every host got requests for more than ``windows`` full windows."""
        deadline = time.monotonic() + PATIENCE_S
        while any(
            len(times) <= windows * RULES.get(host, NETWORK).effective_hits
            for host, times in self.arrivals().items()
        ):
            seen = {host: len(times) for host, times in self.arrivals().items()}
            assert time.monotonic() < deadline, f"some host is not asked: {seen}"
            await asyncio.sleep(0.05)

    async def one_at_work(self) -> LoggedCrawler:
        """A worker that runs; one that was killed is started again in a moment."""
        while True:
            if running := [each for each in self.workers if each.is_running()]:
                return random.choice(running)
            await asyncio.sleep(0.05)

    def visits(self) -> int:
        """Return the number of requests to the sites."""
        return sum(len(site.visits) for site in self.sites)

    async def keep(self) -> None:
        """Start dead workers again and look after the frontier, as supervisor and monitors do."""
        while True:
            for worker in self.workers:
                if not worker.is_running():
                    worker.start()
            try:
                await self.cluster.frontier.maintenance.tend()
            except Exception:  # noqa: BLE001  Redis is being restarted
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)

    def overruns(self) -> list[str]:
        """Every window that holds more than it may."""
        arrivals, found = self.arrivals(), []
        together = sorted(time for host in IN_NETWORK for time in arrivals.pop(host))
        found += crowded("the network", together, NETWORK)
        for host, times in arrivals.items():
            rule = RULES[host]
            found += crowded(f"the address of {host}", times, ADDRESS)
            cut = len(times)
            if host == LOWERED:
                cut = bisect_left(times, self.lowered_at)
                found += crowded(
                    host, times[bisect_left(times, self.lowered_at + EFFECTIVE_S) :], TO
                )
            found += crowded(host, times[:cut], rule)
        return found


def crowded(host: str, times: list[float], rule: ThrottleRule) -> list[str]:
    """Windows of one host over its hits."""
    beyond = zip(times, times[rule.effective_hits :], strict=False)
    return [
        f"{host}: {rule.effective_hits + 1} within {last - first:.4f} s from {first - times[0]:.3f}"
        for first, last in beyond
        if last - first < rule.window_s - STAMP_S
    ]


async def kill_workers(crowd: Crowd) -> None:
    """SIGKILL, while requests are in flight."""
    for _ in range(20 if LONG else 2):
        (await crowd.one_at_work()).kill()
        crowd.strikes["kill"] += 1
        await crowd.progress(10)


async def freeze_a_worker(crowd: Crowd) -> None:
    """SIGSTOP, beyond every deadline in the long form."""
    for _ in range(3 if LONG else 2):
        worker = await crowd.one_at_work()
        worker.signal(signal.SIGSTOP)
        await asyncio.sleep(32 if LONG else 1.5)
        worker.signal(signal.SIGCONT)
        crowd.strikes["freeze"] += 1
        await crowd.progress()


async def restart_redis(crowd: Crowd) -> None:
    """SIGKILL and a new start: a new life of the clock, with everything that was written."""
    for _ in range(10 if LONG else 1):
        # On this thread: the server ends with the one that started it.
        crowd.redis_server.kill()
        crowd.redis_server.start()
        crowd.strikes["redis"] += 1
        await crowd.progress()


async def lower_a_rule(crowd: Crowd) -> None:
    """A tenth of the rate, in the middle of the crawl."""
    await crowd.progress()
    await crowd.cluster.set_rules(RULES[EVEN], {**RULES, LOWERED: TO}, groups=GATES)
    crowd.lowered_at = time.time()
    crowd.strikes["lower"] += 1
    await asyncio.sleep(EFFECTIVE_S)
    await crowd.progress(30)


async def let_time_pass(crowd: Crowd) -> None:
    """Nothing but late accepts, and clocks that are an hour off."""
    await crowd.progress(1_000 if LONG else 40)
    crowd.strikes["pass"] += 1


Fault = Callable[[Crowd], Awaitable[None]]
FAULTS: tuple[Fault, ...] = (
    let_time_pass, kill_workers, freeze_a_worker, restart_redis, lower_a_rule,
)  # fmt: skip


def clock_off(hours: int, folder: Path) -> dict[str, str]:
    """The environment of a worker whose clock is so much off."""
    (folder / "sitecustomize.py").write_text(SHIFT_CLOCK)
    paths = filter(None, (str(folder), os.environ.get("PYTHONPATH")))
    return {"PYTHONPATH": os.pathsep.join(paths), "SHIFT_CLOCK_S": str(hours * 3600)}


def clock_errors(cluster: CrawlerCluster) -> set[int]:
    """By how many hours the clocks were off that stamped the results."""
    now = datetime.now(UTC)
    stamps = (datetime.fromisoformat(record["timestamp"]) for record in cluster.results())
    return {round((stamp.replace(tzinfo=UTC) - now).total_seconds() / 3600) for stamp in stamps}


@pytest.fixture
def sites() -> Iterator[tuple[CrawlerSite, CrawlerSite]]:
    """Where visitors come in at once, and where they wait for each connection."""
    paths = [f"/{n}" for n in range(PAGES)]
    quick = dict.fromkeys(paths, Answer(b"<p>"))
    late = dict.fromkeys(paths, Answer(b"<p>", headers={**HTML, "Connection": "close"}))
    with serving(quick) as here, serving(late, kind=LateSite) as there:
        yield here, there


@pytest.fixture
def cluster(
    redis: Redis,
    redis_server: RunningServer,
    kafka_server: RunningServer,
    fresh_name: str,
    tmp_path: Path,
) -> CrawlerCluster:
    """A frontier, and topics of its own."""
    return CrawlerCluster(redis, redis_server.port, kafka_server.port, fresh_name, tmp_path)


@asynccontextmanager
async def crawling(
    cluster: CrawlerCluster,
    sites: tuple[CrawlerSite, CrawlerSite],
    redis_server: RunningServer,
) -> AsyncIterator[Crowd]:
    """Two workers at work for a block, their clocks an hour fast and an hour slow."""
    await cluster.prepare(RULES[EVEN])
    await cluster.set_rules(RULES[EVEN], RULES, groups=GATES)
    workers = []
    for number, hours in enumerate((1, -1)):
        home = cluster.home / f"worker-{number}"
        home.mkdir()
        env = {**cluster.env, **clock_off(hours, home), "LOG_LEVEL": "WARNING"}
        workers.append(LoggedCrawler("link", env, home / "log"))
    crowd = Crowd(cluster, sites, workers, redis_server)
    await crowd.feed()
    try:
        async with beside(crowd.keep()):
            yield crowd
    finally:
        for worker in workers:
            worker.kill()


ALL_AT_ONCE = [pytest.param(FAULTS, id="all")]
ONE_BY_ONE = [pytest.param((fault,), id=fault.__name__) for fault in FAULTS]


@pytest.mark.parametrize("faults", ALL_AT_ONCE + (ONE_BY_ONE if LONG else []))
async def test_no_fault_of_ours_makes_a_site_s_window_overrun(
    cluster: CrawlerCluster,
    sites: tuple[CrawlerSite, CrawlerSite],
    redis_server: RunningServer,
    faults: tuple[Fault, ...],
) -> None:
    """Workers die and freeze, clocks are off, doors are slow, Redis restarts, a rule is lowered.

    The windows of each host, of each address, and of a network with three hosts.
    """
    async with crawling(cluster, sites, redis_server) as crowd:
        await crowd.see_all(1)
        for fault in faults:
            await fault(crowd)
            assert crowd.overruns() == [], f"after {fault.__name__}"
        await crowd.see_all(2)
    assert crowd.overruns() == []
    assert len(crowd.strikes) == len(faults)
    assert clock_errors(cluster) <= {1, -1}, "the workers' clocks were right"
