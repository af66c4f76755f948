"""A crawl over three partitions, each on a Redis of its own, that is killed, or loses its data."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from support.crawler.spread_web import spread
from support.partitions.servers.crawled import Divided
from support.waiting import wait_until

pytest_plugins = ("support.partitions.servers.fixtures",)


@pytest.mark.parametrize("partition", [0, 2])
async def test_while_one_partition_is_down_the_others_go_on(
    divided: Divided, partition: int
) -> None:
    """Loses nothing while a partition is down, and ends the run once, all pages counted."""
    hosts = [host for p in range(3) for host in divided.hosts(p)]
    urls = spread(divided.site, hosts, pages=60, after_s=0.2)
    others = {host for p in range(3) if p != partition for host in divided.hosts(p)}
    with divided.running():
        divided.feed("down", urls[:9])
        await wait_until(lambda: len(divided.site.visits) > 30)
        # The coordinator of this crawl is partition 0: a process that has to ask it waits for it.
        # Each seed changes the crawl there, and so does the event of its start, a second later:
        # all agree for good only after the last of them.
        await wait_until(
            lambda: {visit.host for visit in divided.site.visits if visit.path == "/0"} == {*hosts}
        )
        await asyncio.sleep(2)
        await wait_until(divided.agree)
        divided.redis[partition].kill()
        # Granted requests may still leave.
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
    """Its credits are waited for: only that number of pages come, and not one more."""
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
