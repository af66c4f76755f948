"""A page limit over three partitions, by the processes that users run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from crawlstream_chaos.scripted_site import CrawlerSite, page, serving
from crawlstream_chaos.witness import Witness
from support.crawler.spread_web import WIDE_OPEN
from support.monitors import MonitorCluster
from support.waiting import wait_until

HOSTS = [f"127.0.0.{n}" for n in range(2, 14)]
PAGES, LIMIT = 40, 60


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """Twelve hosts of forty pages, each of which leads to three of each of three hosts."""
    with serving({}) as site:
        for n, host in enumerate(HOSTS):
            others = [HOSTS[(n + step) % len(HOSTS)] for step in (0, 1, 5)]
            for m in range(PAGES):
                paths = [f"/{(3 * m + step) % PAGES}" for step in (1, 2, 3)]
                site.pages[f"{host}/{m}"] = page(*(site.url(p, o) for o in others for p in paths))
        yield site


@contextmanager
def running(cluster: MonitorCluster, **failing: str) -> Iterator[None]:
    """Both monitors and two crawlers, for the length of the block."""
    with ExitStack() as stack:
        stack.enter_context(cluster.kafka_monitor(**failing))
        stack.enter_context(cluster.redis_monitor(**WIDE_OPEN))
        for _ in range(2):
            stack.enter_context(cluster.crawler("link"))
        yield


def request(
    site: CrawlerSite, crawlid: str, host: str = HOSTS[0], **more: object
) -> dict[str, object]:
    """A seed whose links are followed everywhere."""
    crawl = {"appid": "limited", "crawlid": crawlid, "maxdepth": 20, "max_pages": LIMIT}
    return {"url": site.url("/0", host), **crawl, **more}


async def test_so_many_pages_come_and_not_one_more(
    cluster: MonitorCluster, witness: Witness, site: CrawlerSite
) -> None:
    """Admits exactly the limit in each crawl, and more only by a higher limit."""
    with running(cluster):
        for crawlid in ("first", "second"):
            witness.feed(request(site, crawlid))
            ending = await witness.ended(crawlid)
            urls = Counter(result["url"] for result in witness.results(crawlid))
            assert (len(urls), urls.total()) == (LIMIT, LIMIT)
            counters = ending["counters"]
            assert counters["admitted"] == counters["done"] == LIMIT
            assert counters["filtered"]["max_pages"] > 0
        witness.feed(request(site, "first", HOSTS[5], max_pages=LIMIT + 20))
        await wait_until(lambda: len(witness.events("first", "crawl_finished")) == 2)
    assert len({result["url"] for result in witness.results("first")}) == LIMIT + 20


async def test_a_refused_seed_is_told_of_after_a_death(
    cluster: MonitorCluster, witness: Witness, site: CrawlerSite
) -> None:
    """Killed when partitions have refused it, before it is published: the next one does that."""
    seeds = [request(site, "dying", host, max_pages=2, uuid=host) for host in HOSTS[:5]]
    with cluster.kafka_monitor(FAILPOINT="after_put:kill") as dying:
        witness.feed(*seeds)
        await wait_until(lambda: not dying.is_running())
    assert not witness.records("rejected")
    with cluster.kafka_monitor():
        await wait_until(lambda: len(witness.records("rejected")) == 3)
    assert {seen.value["reason"] for seen in witness.records("rejected")} == {"max_pages"}
