"""A crawl over three partitions while its home, and another one, are killed, cut and wiped."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

from support.crawler.spread_web import spread
from support.partitions.servers.crawled import Divided
from support.waiting import wait_until

pytest_plugins = ("support.partitions.servers.fixtures",)

HITS = 4
"""Requests to a host in any second."""
TOLERANCE_S = 0.005


async def test_partitions_that_are_struck_in_turn_lose_no_page(divided: Divided) -> None:
    """Each page comes under one id, the run ends once, and no site's limit is exceeded."""
    hosts = [host for p in range(3) for host in divided.hosts(p)]
    urls = spread(divided.site, hosts, pages=12, after_s=0)
    home, visits = divided.home("struck"), divided.site.visits
    other = (home + 1) % 3
    with divided.running(QUEUE_HITS=str(HITS)):
        divided.feed("struck", urls[: len(hosts)])
        await wait_until(lambda: len(visits) > 12)
        divided.wipe(other)
        await wait_until(lambda: len(visits) > 30)
        size = divided.log(home).stat().st_size
        await wait_until(lambda: len(visits) > 40)
        divided.go_back(home, size)
        await wait_until(lambda: len(visits) > 55)
        divided.redis[other].kill()
        divided.redis[other].start()
        await wait_until(lambda: len(visits) > 70)
        divided.wipe(home)
        ending = await divided.witness.ended("struck", timeout_s=150)
    results = divided.witness.results("struck")
    assert {result["url"] for result in results} == set(urls)
    assert len({result["id"] for result in results}) == len(urls)
    assert len(divided.witness.events("struck", "crawl_finished")) == 1
    assert ending["counters"]["admitted"] == ending["counters"]["done"] == len(urls)
    _check_windows(divided)


def _check_windows(divided: Divided) -> None:
    arrivals: defaultdict[str, list[float]] = defaultdict(list)
    for visit in divided.site.visits:
        arrivals[visit.host].append(visit.at)
    for host, times in arrivals.items():
        pairs = zip(sorted(times), islice(sorted(times), HITS, None), strict=False)
        assert min((last - first for first, last in pairs), default=1) > 1 - TOLERANCE_S, host
