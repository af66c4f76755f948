"""A crawl over three partitions, by the processes that users run; the site's log is the referee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from crawlstream.chaos.scripted_site import CrawlerSite, page, serving
from crawlstream.chaos.witness import Witness
from crawlstream.keys import Partitions
from support.monitors import MonitorCluster

APP = "divided"
HOSTS = [f"127.0.0.{n}" for n in range(2, 14)]
PATHS = [f"/{n}" for n in range(5)]
WIDE_OPEN = {
    "QUEUE_HITS": "100000",
    "QUEUE_WINDOW": "1",
    "QUEUE_MODERATED": "false",
    "CRAWLSTREAM_FINISH_GRACE": "0.5",
}


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
    assert len(witness.events("all", "crawl_finished")) == 1
