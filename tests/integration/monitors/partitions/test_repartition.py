"""A running crawl is moved into other numbers of partitions; the site's log is the referee."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from crawlstream.keys import Partitions
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page, serving
from crawlstream_chaos.witness import Witness
from support.crawler.spread_web import WIDE_OPEN
from support.forks.program import Forked
from support.monitors import MonitorCluster, Servers
from support.waiting import wait_until

NAME = "test_repartition"
HOSTS = [f"127.0.4.{n}" for n in range(2, 14)]
PATHS = [f"/{n}" for n in range(30)]
HITS, WINDOW_S = 4, 2
RULE = {**WIDE_OPEN, "QUEUE_HITS": str(HITS), "QUEUE_WINDOW": str(WINDOW_S)}


class Moving:
    """A frontier of another name for each number of partitions, with the same topics and Redis."""

    def __init__(self, servers: Servers, home: Path) -> None:
        self._servers = servers
        self._home = home

    async def another(self, partitions: int, name: str) -> MonitorCluster:
        """As ``frontier``, from within a test."""
        return await asyncio.to_thread(self.frontier, partitions, name)

    def frontier(self, partitions: int, name: str = NAME) -> MonitorCluster:
        """Settings of the processes of one frontier."""
        divided = {"CRAWLSTREAM_PARTITIONS": str(partitions)}
        more = {**(divided if partitions > 1 else {}), "CRAWLSTREAM_NAMESPACE": name}
        return MonitorCluster(self._servers, name=NAME, home=self._home, more=more)

    def begin(
        self, old: MonitorCluster, to: int, name: str, *options: str, fail: str = ""
    ) -> Forked:
        """The command, which is to be ``running``."""
        env = {**old.env, **({"FAILPOINT": fail} if fail else {})}
        number = len([*self._home.glob("move-*")])
        arguments = ["repartition", "--to", str(to), "--namespace", name, *options]
        module = [sys.executable, "-m", "crawlstream_cli"]
        return Forked(*module, *arguments, env=env, log=self._home / f"move-{number}.log")


@pytest.fixture(scope="module")
def moving(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Moving:
    """With a home of this module's own."""
    return Moving(servers, tmp_path_factory.mktemp("moving"))


@pytest.fixture(scope="module")
def cluster(moving: Moving) -> MonitorCluster:
    """The first of them; the witness is its client."""
    return moving.frontier(1)


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """A web of twelve hosts, whose pages lead to the next one there and at two others."""
    with serving({}) as site:
        for n, host in enumerate(HOSTS):
            for path, following in pairwise(PATHS):
                others = [HOSTS[(n + step) % len(HOSTS)] for step in (0, 1, 5)]
                answer = page(*(site.url(following, other) for other in others))
                site.pages[host + path] = Answer(answer.body, after_s=0.05)
            site.pages[host + PATHS[-1]] = page()
        first = [site.url(PATHS[0], host) for host in HOSTS]
        site.pages["/"] = page(*first)
        yield site


@contextmanager
def running(cluster: MonitorCluster) -> Iterator[ExitStack]:
    """Both monitors and a crawler, until the block or the stack ends."""
    with ExitStack() as stack:
        stack.enter_context(cluster.kafka_monitor())
        stack.enter_context(cluster.redis_monitor(**RULE))
        stack.enter_context(cluster.crawler("link"))
        yield stack


async def moved(process: Forked, stack: ExitStack, *, status: int = 0) -> str:
    """Let a move come to its end; the processes are stopped when it says so."""
    with process.running():
        await wait_until(
            lambda: "stop these processes" in process.logged() or not process.is_running()
        )
        stack.close()
        assert process.wait(60) == status, process.logged()
    return process.logged()


async def test_a_crawl_is_moved_twice(
    moving: Moving, cluster: MonitorCluster, witness: Witness, site: CrawlerSite
) -> None:
    """Each page comes once, the windows of sites hold, and one ending has the sums of all."""
    urls = [site.url("/", HOSTS[0]), *(site.url(path, host) for host in HOSTS for path in PATHS)]
    assert {Partitions(f"{NAME}b", 3).of(host) for host in HOSTS} == {0, 1, 2}
    second, third = await moving.another(3, f"{NAME}b"), await moving.another(1, f"{NAME}c")
    with running(cluster) as stack:
        witness.feed({"url": urls[0], "appid": NAME, "crawlid": "moved", "maxdepth": 50})
        await wait_until(lambda: len(witness.results("moved")) > len(urls) // 10, timeout_s=90)
        await moved(moving.begin(cluster, 3, f"{NAME}b"), stack)
    assert len(witness.results("moved")) < len(urls) * 2 // 3
    with running(second) as stack:
        await wait_until(lambda: len(witness.results("moved")) > len(urls) // 2, timeout_s=120)
        await moved(moving.begin(second, 1, f"{NAME}c"), stack)
    assert len(witness.results("moved")) < len(urls)
    with running(third):
        ending = await witness.ended("moved")
    assert Counter(result["url"] for result in witness.results("moved")) == dict.fromkeys(urls, 1)
    assert Counter(site.url(v.path, v.host) for v in site.visits) == dict.fromkeys(urls, 1)
    counters = ending["counters"]
    assert counters["admitted"] == counters["done"] == len(urls)
    assert len(witness.events("moved", "crawl_finished")) == 1
    assert len(witness.events("moved", "crawl_started")) == 1
    assert most_in_a_window(site) <= HITS


def most_in_a_window(site: CrawlerSite) -> int:
    """Most requests to a host within one window."""
    times = defaultdict[str, list[float]](list)
    for visit in site.visits:
        times[visit.host].append(visit.at)
    return max(
        sum(at <= other < at + WINDOW_S for other in own) for own in times.values() for at in own
    )
