"""A record that kills every monitor that reads it, between records that do not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream_frontier.frontier import Frontier
from support.monitors import MonitorCluster
from support.waiting import WaitUntil

KILLER = """
import os
import signal
from crawlstream.plugins import Schema
from crawlstream.plugins import Handler

class Killer(Handler):
    name, rank = "killer", 500
    schema = Schema({"type": "object", "required": ["kill"], "properties": {"kill": {}}})

    async def handle(self, request, record):
        if request["kill"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return [request]
"""
BEFORE, BEHIND = 30, 30
APP = "poisoned"


def install_killer(site: Path) -> None:
    """Install the plugin into a folder, as pip would."""
    info = site / "killer-1.dist-info"
    info.mkdir(parents=True)
    (site / "killer.py").write_text(KILLER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: killer\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[crawlstream.requests]\nkiller = killer:Killer\n")


async def test_a_record_that_kills_three_monitors_is_rejected(
    cluster: MonitorCluster, redis: Redis, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """The fourth goes on behind it: it alone is rejected, and all others take effect once.

    What a plugin returns in place of an effect is named in a rejection, too.
    """
    install_killer(tmp_path / "site")
    seeds = [
        {"appid": APP, "crawlid": "c", "url": f"http://a.example.com/{number}"}
        for number in range(BEFORE + BEHIND)
    ]
    records: list[Mapping[str, object]] = [*seeds[:BEFORE], {"kill": 1}, *seeds[BEFORE:]]
    cluster.feed_in_order("poisoned:c", *records)
    frontier = Frontier(redis, FrontierKeys(cluster.keys.namespace))

    async def has_admitted(count: int) -> bool:
        state = await frontier.queries.crawl_state(CrawlKey("link", APP, "c"), with_domains=False)
        return state is not None and state.admitted == count

    with cluster.kafka_monitor(PYTHONPATH=cluster.python_path(tmp_path / "site")) as monitor:
        for _ in range(3):
            await wait_until(lambda: not monitor.is_running(), timeout_s=60)
            monitor.start()
        await wait_until(partial(has_admitted, len(seeds)), timeout_s=60)
        assert monitor.is_running()
        assert monitor.starts() == 4
        rejected = [r for r in cluster.read_all(cluster.topics.rejected) if b'"poison"' in r]
        assert len(rejected) == 1
        assert len(cluster.read_all(cluster.topics.rejected)) == 1
        cluster.feed_in_order("poisoned:c", {**seeds[0], "url": "http://b.example.com/"})
        await wait_until(partial(has_admitted, len(seeds) + 1), timeout_s=60)
        cluster.feed_in_order("poisoned:c", {"kill": 0})
        topic = cluster.topics.rejected
        await wait_until(lambda: any(map(_names_the_list, cluster.read_all(topic))))
        keys = await redis.hkeys(cluster.keys.attempts())
        names = [key.decode() if isinstance(key, bytes) else key for key in keys]
        assert names, "where it was assigned is remembered"
        assert all(name.count(":") == 1 for name in names), "no record is judged with care"


def _names_the_list(rejected: bytes) -> bool:
    return b"handler_failed" in rejected and b"Killer.handle returned [" in rejected
