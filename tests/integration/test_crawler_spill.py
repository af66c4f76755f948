"""A crawler whose pages lead to more than Redis has room for, and what brings it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import CrawlKey
from support.crawler_cluster import CrawlerCluster, counted
from support.crawler_site import Answer, CrawlerSite, page, serving
from support.frontier_audit import audit
from support.monitors import MonitorProcess
from support.servers import RunningServer
from support.spilling import filled
from support.waiting import WaitUntil

LINKS = 40


@pytest.fixture
async def cluster(
    redis: Redis,
    redis_server: RunningServer,
    kafka_server: RunningServer,
    fresh_name: str,
    tmp_path: Path,
) -> CrawlerCluster:
    """A frontier without limits of rate, and topics of its own."""
    cluster = CrawlerCluster(redis, redis_server.port, kafka_server.port, fresh_name, tmp_path)
    await cluster.prepare()
    return cluster


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """A front page with forty others."""
    links = [f"/{number}" for number in range(LINKS)]
    pages = {link: Answer(b"<p>") for link in links}
    with serving({"/": page(*links), **pages}) as site:
        yield site


@pytest.fixture
def kafka_monitor(cluster: CrawlerCluster) -> Iterator[MonitorProcess]:
    """Not started yet."""
    env = {**cluster.env, "KAFKA_GROUP": cluster.topics.prefix}
    process = MonitorProcess("kafka_monitor", "run", env=env, log=cluster.home / "monitor.log")
    yield process
    process.kill()


async def is_spilled(cluster: CrawlerCluster, crawl: CrawlKey, links: int) -> bool:
    """Whether so many links wait in Kafka."""
    return (await cluster.state_of(crawl)).spilled == links


async def spill_front_page(
    cluster: CrawlerCluster, site: CrawlerSite, redis: Redis, wait_until: WaitUntil
) -> CrawlKey:
    """A crawl whose front page is done, its links in Kafka."""
    crawl = await cluster.feed(site.url("/"), maxdepth=1)
    async with filled(redis, 0.95):
        await wait_until(lambda: is_spilled(cluster, crawl, LINKS))
    return crawl


async def test_a_worker_that_dies_after_it_has_spilled_costs_no_link(
    cluster: CrawlerCluster,
    site: CrawlerSite,
    redis: Redis,
    kafka_monitor: MonitorProcess,
    wait_until: WaitUntil,
) -> None:
    """Its page is fetched again, and the first record says nothing; with room all drains.

    The kafka-monitor that brings the links back is killed right after it has done so.
    """
    crawl = await cluster.feed(site.url("/"), maxdepth=1)
    async with AsyncExitStack() as crowd:
        await crowd.enter_async_context(filled(redis, 0.95))
        with cluster.worker(FAILPOINT="after_spill:kill") as worker:
            await wait_until(lambda: not worker.is_running())
        assert (await cluster.state_of(crawl)).held == 1
        with cluster.worker():
            await wait_until(lambda: is_spilled(cluster, crawl, LINKS))
            state = await cluster.state_of(crawl)
            assert (state.done, state.admitted, state.queued) == (1, LINKS + 1, 0)
            await crowd.aclose()
            kafka_monitor.start()
            await wait_until(lambda: f'"admitted":{LINKS}' in kafka_monitor.logged())
            kafka_monitor.kill()
            kafka_monitor.start()
            state = await cluster.end_of(crawl, timeout_s=90)
    assert (state.done, state.admitted) == (LINKS + 1, LINKS + 1)
    results = counted(cluster.results())
    assert len(results) == LINKS + 1
    assert {url: times for url, times in results.items() if times > 1} == {site.url("/"): 2}
    await audit(redis)


async def test_a_redis_that_is_emptied_takes_what_was_spilled_with_it(
    cluster: CrawlerCluster,
    site: CrawlerSite,
    redis: Redis,
    kafka_monitor: MonitorProcess,
    wait_until: WaitUntil,
) -> None:
    """The seed is crawled again and spills again; of the records only the new ones count."""
    with cluster.worker():
        await spill_front_page(cluster, site, redis, wait_until)
        kafka_monitor.start()
        await wait_until(kafka_monitor.starts)
        await redis.flushall()
        await cluster.begin_anew()
        crawl = await spill_front_page(cluster, site, redis, wait_until)
        state = await cluster.end_of(crawl, timeout_s=90)
    assert (state.done, state.admitted) == (LINKS + 1, LINKS + 1)
    results = counted(cluster.results())
    assert {url: times for url, times in results.items() if times > 1} == {site.url("/"): 2}
    await audit(redis)
