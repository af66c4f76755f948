"""Connections to sites: kept for the next page, and given up in time."""

from __future__ import annotations

from pathlib import Path

import psutil

from crawlstream_chaos.scripted_site import CrawlerSite, page
from support.crawler.cluster import CrawlerCluster
from support.crawler.ways import both_ways
from support.waiting import WaitUntil

pytest_plugins = ["support.crawler.fixtures"]

FEWER = """
from crawling.net import connections

connections.MOST_KEPT = 20
"""


def sockets_of(pid: int, port: int) -> int:
    """How many connections to a port, of whichever host, a process has open."""
    found = psutil.Process(pid).net_connections("tcp")
    kept = (each.raddr for each in found if each.status == psutil.CONN_ESTABLISHED)
    return sum(address.port == port for address in kept)


@both_ways
async def test_connections_are_kept_and_no_more_than_a_process_can_bear(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """A host's second page comes over the first one's; a hundred hosts leave twenty open."""
    (tmp_path / "fewer.py").write_text(FEWER)
    path = f"{tmp_path}:{cluster.env.get('PYTHONPATH', '')}"
    site.pages |= {"/1": page(), "/2": page()}
    hosts = [f"127.0.1.{number}" for number in range(1, 101)]
    with cluster.worker(PYTHONPATH=path, CRAWLSTREAM_SPIDER_MODULES="fewer") as worker:
        await cluster.end_of(await cluster.feed(site.url("/1"), crawlid="1"), timeout_s=60)
        assert sockets_of(worker.pid, site.port) == 1
        await cluster.end_of(await cluster.feed(site.url("/2"), crawlid="2"), timeout_s=60)
        assert sockets_of(worker.pid, site.port) == 1
        wide = await cluster.feed(*(site.url("/1", host) for host in hosts), crawlid="wide")
        assert (await cluster.end_of(wide, timeout_s=60)).done == len(hosts)
        await wait_until(lambda: sockets_of(worker.pid, site.port) <= 20)
        assert sockets_of(worker.pid, site.port) > 10
