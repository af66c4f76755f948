"""Every process of the cluster is killed during a crawl, and the crawl delivers every page."""

from __future__ import annotations

import gc
import time
from collections import Counter

import pytest

from crawlstream_chaos.witness import Witness
from crawlstream_cli.demo.access_log import busiest_windows
from e2e.cluster import Cluster
from e2e.sites import Serve
from support.waiting import PATIENCE_S, WaitUntil

IN_TURN = ("crawler", "kafka-monitor", "redis-monitor", "redis", "kafka", "zookeeper")
SLOW, QUICK = 1, 40
"""Requests a host and second: while processes are killed, so that pages are always waiting, however
long their restarts take on a busy machine, and after that."""


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
async def test_each_process_killed_in_turn_loses_no_page(
    serve: Serve, witness: Witness, wait_until: WaitUntil, cluster: Cluster
) -> None:
    """Supervisor brings each one back; all pages come, repeats under their id, limits kept."""
    async with serve(hosts=5, pages=900, slow_pages=3) as served:
        truth = served.truth(maxdepth=9)

        async def allow(hits: int) -> None:
            for host in served.web.hosts:
                await cluster.throttle("set", host, "--hits", str(hits), "--window", "1")

        await allow(SLOW)
        name = {"appid": "chaos", "crawlid": f"kills-{served.web.port}"}
        witness.feed({"url": served.web.seed_url, **name, "maxdepth": 9})
        await wait_until(lambda: len(served.fetches()) >= 20)

        async def kill_and_see_it_back(kind: str) -> None:
            assert not witness.ending(name["crawlid"]), f"the crawl ended before {kind} was killed"
            await cluster.kill(kind, timeout_s=PATIENCE_S)
            progress = len(served.fetches())
            await wait_until(lambda: len(served.fetches()) >= progress + 10)

        for kind in IN_TURN:
            await kill_and_see_it_back(kind)
        quick_at_ms = time.time() * 1000
        await allow(QUICK)

        ending = await witness.ended(name["crawlid"], timeout_s=120)
        visits = served.visits()
    # kafka-python leaves the sockets of refused connections to the garbage collector.
    gc.collect()
    results = witness.results(name["crawlid"])
    assert ending["event"] == "crawl_finished"
    assert {result["url"]: result["status_code"] for result in results} == truth.delivered
    assert ending["counters"]["done"] == len(truth.delivered)
    ids = {(result["url"], result["id"]) for result in results}
    assert len(ids) == len(truth.delivered), "a repeat came under another id"
    assert max(Counter(result["id"] for result in results).values()) <= 2
    slow = [visit for visit in visits if visit.wall < quick_at_ms]
    assert max(busiest_windows(slow, 1.0).values()) <= SLOW
    assert max(busiest_windows(visits, 1.0).values()) <= QUICK
