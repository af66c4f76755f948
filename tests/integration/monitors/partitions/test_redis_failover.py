"""A crawl on a Redis Cluster of three primaries with a replica each; one primary is lost."""

from __future__ import annotations

import asyncio
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

HOSTS = [f"127.0.4.{n}" for n in range(2, 14)]
PARTITIONS = 6
LOST = 1
"""The primary that is killed. It has a third of the partitions."""


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[RunningCluster]:
    """Three primaries with a replica each, which notice a loss within two seconds."""
    async with redis_cluster(
        tmp_path / "redis", 3, 3, appendonly="yes", cluster_node_timeout="2000"
    ) as cluster:
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
        "CRAWLSTREAM_PARTITIONS": str(PARTITIONS),
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


async def test_a_replica_takes_over(
    cluster: MonitorCluster, nodes: RunningCluster, site: CrawlerSite
) -> None:
    """The crawl ends without the primary: no page is lost, and what it had is crawled on."""
    partitions = Partitions(cluster.prefix, PARTITIONS)
    on_lost = {h for h in HOSTS if partitions.of(h) * len(nodes.nodes) // PARTITIONS == LOST}
    assert on_lost
    assert on_lost != set(HOSTS)
    urls = spread(site, HOSTS, pages=25)
    witness = Witness(cluster.kafka_hosts, cluster.prefix)
    with ExitStack() as stack:
        stack.callback(witness.close)
        stack.enter_context(cluster.kafka_monitor())
        stack.enter_context(cluster.redis_monitor(**WIDE_OPEN))
        stack.enter_context(cluster.crawler("link"))
        crawl = {"appid": "failover", "crawlid": "failover", "maxdepth": 60}
        witness.feed(*({"url": url, **crawl} for url in urls[: len(HOSTS)]))
        await wait_until(lambda: len(site.visits) > 40)
        nodes.nodes[LOST].kill()
        await wait_until(lambda: _is_primary(nodes), timeout_s=30)
        # Pages leased from the primary that is lost may still arrive.
        await asyncio.sleep(1)
        before = _visits(site, on_lost)
        await wait_until(lambda: _visits(site, on_lost) > before, timeout_s=60)
        ending = await witness.ended("failover", timeout_s=150)
    assert {result["url"] for result in witness.results("failover")} == set(urls)
    counters = ending["counters"]
    assert counters["admitted"] == counters["done"] == len(urls)
    assert len(witness.events("failover", "crawl_finished")) == 1


async def _is_primary(nodes: RunningCluster) -> bool:
    return await nodes.role(LOST) == "master"


def _visits(site: CrawlerSite, hosts: set[str]) -> int:
    return sum(visit.host in hosts for visit in site.visits)
