"""A crawl over three partitions, by the processes that users run; the site's log is the referee."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from crawlstream.keys import Partitions
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page, serving
from crawlstream_chaos.witness import Witness
from support.crawler.spread_web import WIDE_OPEN
from support.monitors import MonitorCluster
from support.waiting import wait_until

APP = "divided"
HOSTS = [f"127.0.0.{n}" for n in range(2, 14)]
PATHS = [f"/{n}" for n in range(5)]


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """Twelve hosts, whose pages lead to the next page of the same and of three other hosts."""
    with serving({}) as site:
        for n, host in enumerate(HOSTS):
            others = [HOSTS[(n + step) % len(HOSTS)] for step in (0, 1, 2, 5)]
            for m, path in enumerate(PATHS):
                links = [site.url(PATHS[(m + 1) % len(PATHS)], other) for other in others]
                site.pages[host + path] = page(*links)
        yield site


@contextmanager
def running(cluster: MonitorCluster, workers: int = 1) -> Iterator[None]:
    """Both monitors and crawlers, for the length of the block."""
    with ExitStack() as stack:
        stack.enter_context(cluster.kafka_monitor())
        stack.enter_context(cluster.redis_monitor(**WIDE_OPEN))
        for _ in range(workers):
            stack.enter_context(cluster.crawler("link"))
        yield


def request(site: CrawlerSite, crawlid: str, **more: object) -> dict[str, object]:
    """A seed whose links are followed everywhere."""
    return {
        "url": site.url(PATHS[0], HOSTS[0]),
        "appid": APP,
        "crawlid": crawlid,
        "maxdepth": 20,
        **more,
    }


async def test_each_page_of_all_partitions_comes_once(
    cluster: MonitorCluster, witness: Witness, site: CrawlerSite
) -> None:
    """Links lead through Kafka; the run ends when all partitions are through, and says so once."""
    partitions = Partitions(cluster.prefix, 3)
    assert {partitions.of(host) for host in HOSTS} == {0, 1, 2}
    fed_at = int(time.time())
    with running(cluster):
        witness.feed(request(site, "all"))
        ending = await witness.ended("all")
    urls = Counter(result["url"] for result in witness.results("all"))
    assert urls == {site.url(path, host): 1 for host in HOSTS for path in PATHS}
    assert Counter(visit.host + visit.path for visit in site.visits) == {
        host + path: 1 for host in HOSTS for path in PATHS
    }
    counters = ending["counters"]
    assert counters["admitted"] == counters["done"] == len(urls)
    assert fed_at <= ending["started"] <= time.time()
    assert len(witness.events("all", "crawl_finished")) == 1


async def test_a_crawl_that_is_fed_again_has_another_run(
    cluster: MonitorCluster, witness: Witness, site: CrawlerSite
) -> None:
    """Its seed is fetched again, and what it led to is known."""
    with running(cluster):
        witness.feed(request(site, "again"))
        first = await witness.ended("again")
        witness.feed(request(site, "again"))
        await wait_until(lambda: len(witness.events("again", "crawl_finished")) == 2)
    second = witness.events("again", "crawl_finished")[1]
    assert second["run"] == first["run"] + 1
    assert second["counters"]["admitted"] == second["counters"]["done"] == 1


async def test_a_stop_reaches_all_partitions(
    cluster: MonitorCluster, witness: Witness, site: CrawlerSite
) -> None:
    """None of the queued pages is leased, and the crawl can be fed again."""
    endless = [site.url(f"/{n}", host) for n in range(50) for host in HOSTS]
    site.pages[HOSTS[0] + "/0"] = page(*endless)
    for host in HOSTS:
        for n in range(50):
            site.pages[f"{host}/{n}"] = Answer(b"<p>", after_s=2)
    site.pages[HOSTS[0] + "/0"] = page(*endless)
    with running(cluster):
        witness.feed(request(site, "stopped"))
        await wait_until(lambda: len(witness.results("stopped")) > 20)
        stop = {"appid": APP, "crawlid": "stopped", "spiderid": "link", "action": "stop"}
        witness.feed({**stop, "uuid": "stop"})
        reply = await witness.answered("stop")
        ending = await wait_until(lambda: witness.ending("stopped"))
        seen = len(site.visits)
        await asyncio.sleep(2)
        assert len(site.visits) == seen
    assert reply["total_purged"] > 0
    assert 0 <= time.time() - ending["started"] < 600
