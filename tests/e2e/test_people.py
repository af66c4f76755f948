"""Commands of people, on a running cluster."""

from __future__ import annotations

import json
import socket
from typing import Any

from crawlstream import __version__
from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.sites import Serve
from support.waiting import WaitUntil


async def test_a_person_sees_processes_crawls_and_counters(
    serve: Serve, witness: Witness, cluster: Cluster, wait_until: WaitUntil
) -> None:
    """``status``, ``crawls`` and ``stats``, as tables and in JSON."""

    async def say(*arguments: str) -> Any:
        done = await cluster.run(*arguments)
        assert done.status == 0, done.err
        return json.loads(done.out) if "--json" in arguments else done.out

    async with serve(hosts=1, pages=4, slow_pages=0) as served:
        crawlid = f"people-{served.web.port}"
        name = {"appid": "people", "spiderid": "link", "crawlid": crawlid}
        witness.feed({"url": served.web.seed_url, "maxdepth": 9, **name})
        ending = await witness.ended(crawlid)

    ours = {"kafka-monitor", "redis-monitor", "rest", "crawler"}

    async def all_are_heard() -> Any:
        told = await say("status", "--json")
        mute = {one["kind"] for one in told["processes"] if one["version"] is None}
        return told if not mute & ours else None

    status = await wait_until(all_are_heard)
    for process in status["processes"]:
        says = (process["version"], process["host"])
        expected = (__version__, socket.gethostname()) if process["kind"] in ours else (None, None)
        assert says == expected, process
        assert process["condition"] == "ready", process
    assert {process["kind"] for process in status["heard"]} == ours
    assert status["counters"]["residual"] == 0
    assert __version__ in await say("status")

    (crawl,) = await say("crawls", "--appid", "people", "--state", "finished", "--json")
    assert (crawl["crawlid"], crawl["residual"]) == (crawlid, 0)
    assert crawl["done"] == ending["counters"]["done"]
    assert "people" in await say("crawls", "--appid", "people")

    spiders = await say("stats", "spider", "--json")
    assert spiders["spiders"]["link"]["200"]["lifetime"] >= 1
    assert "responses by spider" in await say("stats", "crawler")
