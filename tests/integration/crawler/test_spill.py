"""A crawler whose pages lead to more than Redis has room for, and what brings it back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page, serving
from support.crawler.cluster import WIDE_OPEN, CrawlerCluster, counted
from support.frontier.audit import audit
from support.monitors import MonitorProcess
from support.spilling import filled
from support.waiting import WaitUntil

pytest_plugins = ["support.crawler.fixtures"]

LINKS = 40
CLOSED = ThrottleRule(hits=0, window_s=1)


@pytest.fixture
async def cluster(cluster: CrawlerCluster) -> CrawlerCluster:
    """A frontier that lets nothing be fetched yet, and topics of its own."""
    await cluster.set_rules(CLOSED, {})
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
    """Return whether that number of links wait in Kafka."""
    return (await cluster.state_of(crawl)).spilled == links


@asynccontextmanager
async def crowded(cluster: CrawlerCluster, redis: Redis) -> AsyncIterator[None]:
    """Redis has no room for links, and only as long as that anything is fetched."""
    async with filled(redis, 0.95):
        await cluster.set_rules(WIDE_OPEN, {})
        yield
        await cluster.set_rules(CLOSED, {})


async def test_no_death_and_no_loss_costs_a_spilled_link(
    cluster: CrawlerCluster,
    site: CrawlerSite,
    redis: Redis,
    kafka_monitor: MonitorProcess,
    wait_until: WaitUntil,
) -> None:
    """A worker dies after it has spilled: its page is fetched again, and spilled again.

    Redis is emptied with links spilled: its seed is crawled again, and of all records only the last
    counts. The kafka-monitor that brings the links back is killed right after it has done so.
    """
    crawl = await cluster.feed(site.url("/"), maxdepth=1)
    async with crowded(cluster, redis):
        with cluster.worker(FAILPOINT="after_spill:kill") as worker:
            await wait_until(lambda: not worker.is_running())
        assert (await cluster.state_of(crawl)).held == 1
    with cluster.worker():
        async with crowded(cluster, redis):
            await wait_until(lambda: is_spilled(cluster, crawl, LINKS))
            state = await cluster.state_of(crawl)
            assert (state.done, state.admitted, state.queued) == (1, LINKS + 1, 0)
            kafka_monitor.start()
            await wait_until(kafka_monitor.starts)
            await redis.flushall()
            await cluster.rewind()
        assert await cluster.feed(site.url("/"), maxdepth=1) == crawl
        async with crowded(cluster, redis):
            await wait_until(lambda: is_spilled(cluster, crawl, LINKS))
        await cluster.set_rules(WIDE_OPEN, {})
        await wait_until(lambda: f'"admitted":{LINKS}' in kafka_monitor.logged())
        kafka_monitor.kill()
        kafka_monitor.start()
        state = await cluster.end_of(crawl, timeout_s=180)
    assert (state.done, state.admitted) == (LINKS + 1, LINKS + 1)
    results = counted(cluster.results())
    assert len(results) == LINKS + 1
    assert {url: times for url, times in results.items() if times > 1} == {site.url("/"): 3}
    await audit(redis)
