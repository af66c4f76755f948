"""Bans, and how proxies do: the commands of people, with a real ZooKeeper and Redis."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.boot.settings import load_settings
from crawlstream.egress.edit import PoolEditor
from crawlstream.model.egress.pools import Proxy
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.egress.proxy_book import BookSession
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.proxy_reports import (
    REFUSED,
    PoolSpend,
    ProxyOutcome,
    ProxyReport,
    ProxyRest,
)
from support.crawler.pools_node import Node
from support.frontier.bench import open_bench


class Cluster:
    """Pools that rule, and a worker that reports on them."""

    def __init__(self, frontier: Frontier, proxies: list[Proxy]) -> None:
        self.frontier = frontier
        self.proxies = proxies
        self.session: BookSession = frontier.book.session("w1")

    async def tell(self, **report: Any) -> None:
        """Send a report of the worker."""
        await self.session.exchange(ProxyReport(**report), is_user=True)


@pytest.fixture
async def cluster(
    node: Node,
    redis: Redis,
    redis_server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Cluster:
    """Two proxies in one pool, copied to Redis."""
    monkeypatch.setenv("REDIS_HOST", "127.0.0.1")
    monkeypatch.setenv("REDIS_PORT", str(redis_server.port))
    node.write(
        "domains: {shop.test: de}\npools: {de: {budget: {requests: 10}, price: {per_gb: 4},"
        " proxies: ['http://u:CANARY@a.test:1', 'http://b.test:2']}}\n"
    )
    frontier = (await open_bench(redis)).frontier
    settings = load_settings()
    table = await PoolEditor(settings.zookeeper_hosts, settings.proxies_path).read()
    assert await frontier.pools.copy(table)
    return Cluster(frontier, list(table.pools["de"].proxies))


async def in_thread(say: Any, *arguments: str, status: int = 0) -> str:
    """A command, which has a loop of its own."""
    said: str = await asyncio.to_thread(say, *arguments, status=status)
    return said


async def test_people_see_how_proxies_do_and_why_one_is_not_used(
    cluster: Cluster, say: Any
) -> None:
    """Shows proxies by pool, without passwords, in the order in which crawlers use them."""
    first, second = cluster.proxies
    await cluster.tell(
        outcomes={
            first.id: ProxyOutcome(answers=3, refused=1, total_ms=60, through=["shop.test"]),
            second.id: ProxyOutcome(failed=1, in_row=1, is_sure=True),
        },
        rests=[ProxyRest(first.id, "shop.test", 300_000, REFUSED)],
        spends={"de": PoolSpend(4, 500_000_000)},
    )
    shown = await in_thread(say, "stats")
    assert "CANARY" not in shown
    assert "de: 1 ok, 1 out; today 4 requests, 0.500 GB; 60% of the budget left; cost 2.00" in shown
    (pool,) = json.loads(await in_thread(say, "stats", "de", "--json"))
    assert [one["state"] for one in pool["proxies"]] == ["ok", "out"]
    assert (pool["proxies"][0]["answers"], pool["proxies"][0]["mean_ms"]) == (3, 20)
    told = json.loads(await in_thread(say, "why", "shop.test", "--json"))
    rows = {row["id"]: row["why"] for row in told}
    assert rows[first.id].startswith("rests for this site for ")
    assert rows[second.id].startswith("out for ")
    assert "is fetched directly" in await in_thread(say, "why", "other.test")
    other = json.loads(await in_thread(say, "why", "other.test", "--pool", "de", "--json"))
    assert {row["id"]: row["why"] for row in other}[first.id] == ""
    assert "there is no pool 'x'" in await in_thread(say, "stats", "x", status=2)


async def test_a_ban_with_an_end_is_in_redis_and_one_without_in_zookeeper(
    cluster: Cluster, say: Any, node: Node
) -> None:
    """``unban`` ends both; one for a single site needs an end."""
    first, _ = cluster.proxies

    async def states() -> list[str]:
        (pool,) = json.loads(await in_thread(say, "stats", "--json"))
        return [one["state"] for one in pool["proxies"]]

    await in_thread(say, "ban", first.id, "--for", "1h")
    assert await states() == ["banned", "ok"]
    await in_thread(say, "ban", first.id, "--site", "www.shop.com", "--for", "2h")
    (pool,) = json.loads(await in_thread(say, "stats", "--json"))
    assert list(pool["proxies"][0]["bans"]) == ["shop.com"]
    await in_thread(say, "unban", first.id)
    assert await states() == ["ok", "ok"]
    await in_thread(say, "unban", first.id, "--site", "shop.com")
    assert await cluster.frontier.book.rests() == []
    await in_thread(say, "ban", first.id)
    line = node.content["pools"]["de"]["proxies"][0]
    assert line == {"url": "http://u:CANARY@a.test:1", "disabled": True}
    await in_thread(say, "unban", first.id)
    assert node.content["pools"]["de"]["proxies"][0]["disabled"] is False
    assert "needs an end" in await in_thread(say, "ban", first.id, "--site", "a", status=2)
    assert "no pool has a proxy 'p-0'" in await in_thread(say, "ban", "p-0", status=2)
