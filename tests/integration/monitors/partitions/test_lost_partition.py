"""A crawl over three partitions, each on a Redis of its own, that is killed, or loses its data."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from crawlstream.chaos.processes import RunningServer
from crawlstream.chaos.scripted_site import CrawlerSite, serving
from crawlstream.chaos.witness import Witness
from crawlstream.keys import Partitions
from support import servers as real
from support.crawler.spread_web import WIDE_OPEN, spread
from support.monitors import MonitorCluster, Servers
from support.waiting import wait_until

APP = "faults"


@dataclass
class Divided:
    """Three Redis, what works with them, and a web whose hosts are spread over them."""

    cluster: MonitorCluster
    redis: list[RunningServer]
    witness: Witness
    site: CrawlerSite

    def hosts(self, partition: int, count: int = 3) -> list[str]:
        """Some hosts whose pages lie in a partition."""
        partitions = Partitions(self.cluster.prefix, 3)
        every = (f"127.0.1.{n}" for n in range(2, 250))
        return [host for host in every if partitions.of(host) == partition][:count]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Both monitors and a crawler, for the length of the block."""
        with ExitStack() as stack:
            stack.enter_context(self.cluster.kafka_monitor())
            stack.enter_context(self.cluster.redis_monitor(**WIDE_OPEN))
            stack.enter_context(self.cluster.crawler("link"))
            yield

    def feed(self, crawlid: str, urls: list[str], **more: object) -> None:
        """Feed a seed to each of these."""
        crawl = {"appid": APP, "crawlid": crawlid, "maxdepth": 60, **more}
        self.witness.feed(*({"url": url, **crawl} for url in urls))


@pytest.fixture
def divided(
    kafka_server: RunningServer,
    zookeeper_server: RunningServer,
    fresh_name: str,
    tmp_path: Path,
) -> Iterator[Divided]:
    """A cluster of this test's own."""
    with ExitStack() as stack:
        redis = [stack.enter_context(real.redis(tmp_path / f"redis{n}")) for n in range(3)]
        told = {
            "REDIS_HOSTS": ",".join(f"127.0.0.1:{server.port}" for server in redis),
        }
        home = tmp_path / "home"
        home.mkdir()
        servers = Servers(redis[0], kafka_server, zookeeper_server)
        cluster = MonitorCluster(servers, name=fresh_name, home=home, more=told)
        witness = Witness(cluster.kafka_hosts, cluster.prefix)
        stack.callback(witness.close)
        site = stack.enter_context(serving({}))
        yield Divided(cluster, redis, witness, site)


@pytest.mark.parametrize("partition", [0, 2])
async def test_while_one_partition_is_down_the_others_go_on(
    divided: Divided, partition: int
) -> None:
    """When it comes back nothing is lost, and the run ends once, with every page accounted for."""
    hosts = [host for p in range(3) for host in divided.hosts(p)]
    urls = spread(divided.site, hosts, pages=25)
    others = {host for p in range(3) if p != partition for host in divided.hosts(p)}
    with divided.running():
        divided.feed("down", urls[:9])
        await wait_until(lambda: len(divided.site.visits) > 30)
        divided.redis[partition].kill()
        # What had been granted may still leave.
        await asyncio.sleep(2)
        before = Counter(visit.host in others for visit in divided.site.visits)
        await wait_until(
            lambda: sum(v.host in others for v in divided.site.visits) > before[True] + 10
        )
        assert divided.witness.ending("down") is None
        divided.redis[partition].start()
        ending = await divided.witness.ended("down", timeout_s=150)
    results = Counter(result["url"] for result in divided.witness.results("down"))
    assert set(results) == set(urls)
    counters = ending["counters"]
    assert counters["admitted"] == counters["done"] == len(urls)
    assert len(divided.witness.events("down", "crawl_finished")) == 1


async def test_a_page_limit_holds_while_a_partition_is_down(divided: Divided) -> None:
    """Its credits are waited for: so many pages come, and not one more."""
    hosts = [host for p in range(3) for host in divided.hosts(p)]
    urls = spread(divided.site, hosts, pages=25)
    with divided.running():
        divided.feed("limited", urls[:9], max_pages=60)
        await wait_until(lambda: len(divided.site.visits) > 20)
        divided.redis[1].kill()
        await asyncio.sleep(2)
        divided.redis[1].start()
        ending = await divided.witness.ended("limited", timeout_s=150)
    results = {result["url"] for result in divided.witness.results("limited")}
    assert len(results) == ending["counters"]["done"] == 60
    assert ending["counters"]["filtered"]["max_pages"] > 0
