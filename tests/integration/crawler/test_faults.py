"""A crawler process while the services around it fail, and when a page is its death."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page, serving
from support.crawler.cluster import CrawlerCluster, counted
from support.crawler.ways import both_ways
from support.session.own import own_kafka_server
from support.waiting import WaitUntil

__all__ = ["own_kafka_server"]

pytest_plugins = ["support.crawler.fixtures"]


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """A front page with forty others."""
    links = [f"/{number}" for number in range(40)]
    pages = {link: Answer(b"<p>", after_s=0.1) for link in links}
    with serving({"/": page(*links), **pages}) as site:
        yield site


async def test_nothing_is_settled_before_kafka_has_it(
    cluster: CrawlerCluster, site: CrawlerSite, kafka_server: RunningServer, wait_until: WaitUntil
) -> None:
    """While Kafka is frozen fetched pages are kept, and no page counts as done."""
    with cluster.worker():
        # The first crawl connects the producer; the second meets a frozen broker.
        first = await cluster.feed(site.url("/0"), crawlid="first")
        await cluster.end_of(first, timeout_s=90)
        kafka_server.signal(signal.SIGSTOP)
        try:
            crawl = await cluster.feed(site.url("/"), maxdepth=1)
            await wait_until(lambda: len(site.visits) > 1)
            state = await cluster.state_of(crawl)
            assert (state.done, state.held) == (0, 1)
        finally:
            kafka_server.signal(signal.SIGCONT)
        state = await cluster.end_of(crawl, timeout_s=90)
    assert state.done == 41
    assert len(counted(cluster.results())) == 41


async def test_a_worker_that_cannot_go_on_ends(
    cluster: CrawlerCluster, site: CrawlerSite, redis: Redis, wait_until: WaitUntil
) -> None:
    """A permanent fault ends the process with exit code 1, for a supervisor to see."""
    with cluster.worker() as worker:
        await cluster.end_of(await cluster.feed(site.url("/0")), timeout_s=90)
        await redis.set(FrontierKeys().meta(), "not the hash that it was")
        await wait_until(lambda: not worker.is_running())
        assert worker.wait() == 1


async def test_redis_killed_in_mid_crawl_costs_no_page(
    cluster: CrawlerCluster, site: CrawlerSite, redis_server: RunningServer, wait_until: WaitUntil
) -> None:
    """The worker keeps its reports, sends them once Redis is back, and the crawl ends complete."""
    with cluster.worker(CONCURRENT_REQUESTS="4"):
        crawl = await cluster.feed(site.url("/"), maxdepth=1)
        await wait_until(lambda: len(site.visits) > 15)
        redis_server.kill()
        redis_server.start()
        state = await cluster.end_of(crawl, timeout_s=90)
    results = cluster.results()
    assert state.done == len(counted(results)) == 41
    assert len({record["id"] for record in results}) == 41


STUCK_SPIDER = """
from crawling import ClusterSpider

class StuckSpider(ClusterSpider):
    name = "stuck"

    def parse(self, response):
        while response.url.endswith("/poison"):
            pass
        yield self.result(response)
"""


@both_ways
async def test_a_page_that_kills_its_workers_is_given_up_and_no_other_is(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """Fails a page after three deaths on its account, and no page that was held with it."""
    (tmp_path / "stuck.py").write_text(STUCK_SPIDER)
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    users = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "stuck"}
    site.pages["/poison"] = page()
    recorder, dead, looks = tmp_path / "recorder" / "stuck.0", {b""}, [b""]

    def stuck() -> bytes:
        """Name of the living worker whose page is still the one that was on its CPU before."""
        looks.append(recorder.read_bytes() if recorder.exists() else b"")
        before, noted = looks[-2:]
        is_on = noted == before and noted[512:514] != b"\0\0"
        return noted[:512] if is_on and noted[:512] not in dead else b""

    seeds = [site.url(path) for path in ("/poison", "/0", "/1", "/2")]
    crawl = await cluster.feed(*seeds, spiderid="stuck")
    for _ in range(3):
        with cluster.worker("stuck", **users) as worker:
            dead.add(await wait_until(stuck))
            worker.kill()
    with cluster.worker("stuck", **users):
        state = await cluster.end_of(crawl, timeout_s=90)
    assert (state.done, state.failed) == (3, 1)
    assert state.failed_by_reason == {"killed_worker": 1}
    assert set(counted(cluster.results())) == set(seeds[1:])
