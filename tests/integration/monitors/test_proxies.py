"""Proxy pools between real monitors: from ZooKeeper to Redis, and who may name which."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.egress.edit import PoolEditor
from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.egress.pools import DIRECT, PoolTable
from crawlstream_frontier.frontier import Frontier
from support.monitors import MonitorCluster, MonitorProcess
from support.waiting import WaitUntil

pytestmark = pytest.mark.usefixtures("monitor")

APP = "monitored"


@pytest.fixture(scope="module")
def monitor(cluster: MonitorCluster) -> Iterator[MonitorProcess]:
    """A redis-monitor and a kafka-monitor."""
    with cluster.kafka_monitor(), cluster.redis_monitor() as process:
        yield process


@pytest.fixture
def editor(cluster: MonitorCluster) -> PoolEditor:
    """Edits the node of this cluster."""
    settings = cluster.settings()
    return PoolEditor(settings.zookeeper_hosts, settings.proxies_path)


def seed(crawlid: str, **fields: Any) -> dict[str, Any]:
    """A crawl request."""
    return {"appid": APP, "crawlid": crawlid, "url": f"http://{crawlid}.example/", **fields}


async def test_pools_are_in_redis_before_rules_are_and_follow_every_edit(
    editor: PoolEditor,
    frontier: Frontier,
    redis: Redis,
    wait_until: WaitUntil,
) -> None:
    """A node without pools is made first; a Redis that was emptied is given them again."""

    async def known() -> PoolTable | None:
        return await frontier.pools.table()

    async def has_rules() -> bool:
        return await frontier.rules.table() is not None

    await wait_until(has_rules)
    table = await known()
    assert table
    assert (table.default, table.pools) == (DIRECT, {})
    written = await editor.set_pool("de", [{"url": "http://u:p@10.0.0.1:80"}], policy={"spread": 1})

    async def is_followed() -> bool:
        return await known() == written

    await wait_until(is_followed)
    assert await frontier.pools.table(written) is written
    await redis.flushall()
    await wait_until(has_rules)
    assert await known() == written


async def test_an_older_table_never_replaces_a_newer_one(redis: Redis, fresh_name: str) -> None:
    """Replaces no newer table by an older one, or by another node's."""
    pools = Frontier(redis, FrontierKeys(fresh_name)).pools
    assert await pools.copy(PoolTable(default="(unreadable)"))
    assert await pools.copy(PoolTable(czxid=5, mzxid=7))
    assert not await pools.copy(PoolTable(czxid=5, mzxid=6))
    assert not await pools.copy(PoolTable(czxid=4, mzxid=9))
    assert not await pools.copy(PoolTable(default="(unreadable)"))
    assert await pools.copy(PoolTable(czxid=5, mzxid=7))
    assert await pools.copy(PoolTable(czxid=4, mzxid=9), adopt=True)
    table = await pools.table()
    assert table
    assert (table.czxid, table.mzxid) == (4, 9)


async def test_a_seed_may_name_a_pool_that_there_is_for_its_application(
    cluster: MonitorCluster,
    editor: PoolEditor,
    frontier: Frontier,
    wait_until: WaitUntil,
) -> None:
    """All others come back with a sentence; what is allowed is on every page below."""
    await editor.set_pool("de", policy={})
    written = await editor.set_pool("theirs", policy={"apps": ["other"]})

    async def is_followed() -> bool:
        return await frontier.pools.table() == written

    await wait_until(is_followed)
    asked = [
        seed("named", proxy="de"),
        seed("direct", proxy="direct"),
        seed("unknown", proxy="it"),
        seed("forbidden", proxy="theirs"),
        seed("odd", proxy="http://u:CANARY@h:1"),
        seed("last"),
    ]
    cluster.feed_in_order("x", *asked)

    async def has_last() -> bool:
        return await frontier.queries.crawl_state(CrawlKey("link", APP, "last")) is not None

    await wait_until(has_last)
    rejected = [json.loads(each) for each in cluster.read_all(cluster.topics.rejected)]
    told = {json.loads(b64decode(each["raw"]))["crawlid"]: each["errors"] for each in rejected}
    assert told.keys() == {"unknown", "forbidden", "odd"}
    assert told["unknown"] == ["$.proxy: there is no pool 'it'; the pools are de, direct, theirs"]
    assert told["forbidden"] == ["$.proxy: the pool 'theirs' is not for the appid 'monitored'"]
    leases = (await frontier.session("w", "link").exchange(want=50)).leases
    assert {lease.crawl.crawlid: lease.profile.proxy for lease in leases} == {
        "named": "de",
        "direct": "direct",
        "last": None,
    }
