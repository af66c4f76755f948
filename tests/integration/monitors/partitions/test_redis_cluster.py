"""A crawl whose frontier lies on a Redis Cluster of three nodes; one is lost for a while."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from crawlstream.keys import Partitions
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.scripted_site import CrawlerSite, serving
from crawlstream_chaos.witness import Witness
from support.crawler.spread_web import WIDE_OPEN, spread
from support.monitors import MonitorCluster, Servers
from support.partitions.servers.redis_cluster import RunningCluster, redis_cluster
from support.waiting import wait_until


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[RunningCluster]:
    """Three primaries, with append-only files."""
    async with redis_cluster(tmp_path / "redis", appendonly="yes") as cluster:
        yield cluster


@pytest.fixture
def cluster(
    nodes: RunningCluster,
    kafka_server: RunningServer,
    zookeeper_server: RunningServer,
    fresh_name: str,
    tmp_path: Path,
) -> MonitorCluster:
    """Six partitions on them."""
    told = {
        "REDIS_CLUSTER": nodes.addresses,
        "CRAWLSTREAM_PARTITIONS": "6",
    }
    home = tmp_path / "home"
    home.mkdir()
    servers = Servers(nodes.nodes[0], kafka_server, zookeeper_server)
    return MonitorCluster(servers, name=fresh_name, home=home, more=told)


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """An empty web."""
    with serving({}) as site:
        yield site


async def test_a_node_is_lost_and_comes_back(
    cluster: MonitorCluster, nodes: RunningCluster, site: CrawlerSite
) -> None:
    """Other partitions go on; in the end each page came, and the run ended once."""
    urls = spread(site, [f"127.0.2.{n}" for n in range(2, 14)], pages=15)
    witness = Witness(cluster.kafka_hosts, cluster.prefix)
    with ExitStack() as stack:
        stack.callback(witness.close)
        stack.enter_context(cluster.kafka_monitor())
        stack.enter_context(cluster.redis_monitor(**WIDE_OPEN))
        stack.enter_context(cluster.crawler("link"))
        crawl = {"appid": "nodes", "crawlid": "nodes", "maxdepth": 60}
        witness.feed(*({"url": url, **crawl} for url in urls[:12]))
        await wait_until(lambda: len(site.visits) > 30)
        nodes.nodes[1].kill()
        before = len(site.visits)
        await wait_until(lambda: len(site.visits) > before + 20)
        nodes.nodes[1].start()
        ending = await witness.ended("nodes", timeout_s=150)
    assert set(Counter(result["url"] for result in witness.results("nodes"))) == set(urls)
    assert ending["counters"]["admitted"] == ending["counters"]["done"] == len(urls)
    assert len(witness.events("nodes", "crawl_finished")) == 1


@pytest.mark.parametrize("is_finished", [False, True], ids=["cancelled", "finished"])
async def test_a_slot_that_is_moved_key_by_key_is_waited_for(
    cluster: MonitorCluster, nodes: RunningCluster, site: CrawlerSite, *, is_finished: bool
) -> None:
    """Its partition rests, without a second one on the other node; then the run ends as ever."""
    urls = spread(site, [f"127.0.5.{n}" for n in range(2, 14)], pages=15)
    keys = Partitions(cluster.prefix, 6).keys(0)
    witness = Witness(cluster.kafka_hosts, cluster.prefix)
    with ExitStack() as stack:
        stack.callback(witness.close)
        stack.enter_context(cluster.kafka_monitor())
        stack.enter_context(cluster.redis_monitor(**WIDE_OPEN))
        crawler = stack.enter_context(cluster.crawler("link"))
        crawl = {"appid": "moved", "crawlid": "moved", "maxdepth": 60}
        witness.feed(*({"url": url, **crawl} for url in urls[:12]))
        await wait_until(lambda: len(site.visits) > 30)
        move = await nodes.begin_move(keys.tag)
        await wait_until(lambda: "is being moved key by key" in crawler.logged())
        await asyncio.sleep(3)
        assert not [key for key in (await nodes.keys())[move.target] if keys.tag.encode() in key]
        await (nodes.finish(move) if is_finished else nodes.cancel(move))
        ending = await witness.ended("moved", timeout_s=120)
    assert {result["url"] for result in witness.results("moved")} == set(urls)
    assert ending["counters"]["admitted"] == ending["counters"]["done"] == len(urls)
    assert len(witness.events("moved", "crawl_finished")) == 1
