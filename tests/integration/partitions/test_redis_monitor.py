"""Two redis-monitors on three partitions, of which one goes away and comes back."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.witness import Witness
from crawlstream_cli.local.ports import free_block
from support.monitors import MonitorCluster, Servers
from support.partitions.bench import DividedBench, open_divided_bench
from support.partitions.servers.divided import addresses, divided, divided_settings
from support.waiting import wait_until


async def _crawl(bench: DividedBench, name: str, partitions: Sequence[int]) -> list[str]:
    """Fetch a page of a crawl of its own in each of some partitions; the ids of the crawls."""
    crawls = []
    for p in partitions:
        crawl = CrawlKey("link", "app", f"{name}{p}")
        await bench.benches[p].feed.seeds(f"{bench.domains()[p]}/{name}", crawl=crawl)
        assert len(await bench.benches[p].worker.crawl_all()) == 1
        crawls.append(crawl.crawlid)
    return crawls


async def _finished(witness: Witness, crawl: str) -> None:
    """Return when the end of a crawl is published."""
    ending = await wait_until(lambda: witness.ending(crawl))
    assert ending["event"] == "crawl_finished"


def _up(port: int) -> dict[str, float]:
    """Which partitions a redis-monitor reaches, by its metrics."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        told = re.findall(r'partition_up\{partition="(\d+)"\} (\S+)', answer.read().decode())
        return {p: float(value) for p, value in told}
    return {}


@pytest.fixture
def cluster(
    running_three: Sequence[RunningServer],
    kafka_server: RunningServer,
    zookeeper_server: RunningServer,
    tmp_path: Path,
    fresh_name: str,
) -> MonitorCluster:
    """Resources of redis-monitors, besides the partitions."""
    used = Servers(running_three[0], kafka_server, zookeeper_server)
    return MonitorCluster(used, name=fresh_name, home=tmp_path, partitions=1)


async def test_a_partition_that_is_away_pauses_only_its_own_duties(
    three: Sequence[RunningServer], cluster: MonitorCluster
) -> None:
    """Runs end and are published everywhere else, and there as soon as it is back."""
    port = free_block(1)
    env = {
        "REDIS_HOSTS": addresses(three),
        "CRAWLSTREAM_FINISH_GRACE": "0.2",
    }
    settings = divided_settings(
        REDIS_HOSTS=env["REDIS_HOSTS"], CRAWLSTREAM_NAMESPACE=cluster.prefix
    )
    with (
        closing(Witness(cluster.kafka_hosts, cluster.prefix)) as witness,
        cluster.redis_monitor(**env, CRAWLSTREAM_METRICS_PORT=str(port)) as one,
        cluster.redis_monitor(**env) as other,
    ):
        async with divided(settings) as frontiers:
            bench = await open_divided_bench(frontiers)
            for crawl in await _crawl(bench, "all", range(3)):
                await _finished(witness, crawl)
            (late,) = await _crawl(bench, "late", [1])
            three[1].kill()
            for crawl in await _crawl(bench, "others", [0, 2]):
                await _finished(witness, crawl)
            await wait_until(lambda: _up(port) == {"0": 1, "1": 0, "2": 1})
            # The other one has to do alone what both did.
            assert one.stop() == 0
            for crawl in await _crawl(bench, "alone", [0, 2]):
                await _finished(witness, crawl)
            three[1].start()
            await _finished(witness, late)
            assert other.stop() == 0
