"""A Redis without a byte left, for seconds or an hour: it drains by itself, and all is reported."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from crawling.robots.robots_book import RobotsBook, rules_note
from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Links, Outcome, Settle
from crawlstream.model.url import origin_of
from crawlstream.stats.heartbeat import living
from crawlstream.wire.stored import encode_entry
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.witness import Witness
from crawlstream_frontier.frontier import Frontier
from support.monitors import MonitorCluster, Servers
from support.session.own import own_redis_server
from support.waiting import WaitUntil
from support.waiting import wait_until as wait_for

__all__ = ["own_redis_server"]

FULL_S = float(os.environ.get("FULL_REDIS_S", "5"))
"""How long nothing drains while everything else goes on; the long form: 3600."""
HOSTS, PAGES = 50, 5_000
LONG = "x" * 1_900
"""Bytes of a URL: queued pages are most of the content of Redis."""
ROBOTS = 20_000
"""Bytes of a robots.txt, which cannot be packed."""
WIDE_OPEN = {"QUEUE_HITS": "100000", "QUEUE_WINDOW": "1", "QUEUE_MODERATED": "false"}
GRACE = {"CRAWLSTREAM_FINISH_GRACE": "0.5"}


def request(crawlid: str, number: int = 0, *, rest: str = "", **more: object) -> dict[str, object]:
    """A crawl request."""
    url = f"http://127.0.{number % HOSTS}.2/{number}?{rest}"
    return {"url": url, "appid": "full", "crawlid": crawlid, **more}


def action(name: str, crawlid: str, uuid: str) -> dict[str, object]:
    """An action request about a crawl."""
    return {
        "action": name, "appid": "full", "spiderid": "link", "crawlid": crawlid, "uuid": uuid,
    }  # fmt: skip


class Crawler:
    """Work of a crawler in Redis, without the web."""

    def __init__(self, redis: Redis, keys: FrontierKeys) -> None:
        frontier = Frontier(redis, keys)
        self.session = frontier.session("w1", "link")
        self._book = RobotsBook(lambda _: frontier.scripts)
        self._known: set[str] = set()

    async def crawl(self, want: int) -> int:
        """Lease that number of pages, find what robots.txt says of unknown hosts, and end all."""
        leases = (await self.session.exchange(want=want)).leases
        for lease in leases:
            await self._learn(origin_of(lease.entry.url))
        settles = [Settle(token=h.token, outcome=Outcome.DONE, reason="2xx") for h in leases]
        await self.session.exchange(settles=settles)
        return len(leases)

    async def _learn(self, origin: str) -> None:
        if origin not in self._known:
            self._known.add(origin)
            assert await self._book.claim(origin, None)
            await self._book.write(origin, rules_note(os.urandom(ROBOTS)))
            (note,) = await self._book.read([origin])
            assert note.word == b"rules"

    async def refused(self, lease: Lease) -> bool:
        """Return whether there is no room for the links of a page."""
        found = [
            Links(
                domain=lease.domain,
                priority=1,
                fingerprints=["1"],
                entries=[encode_entry(lease.entry)],
            )
        ]
        settle = Settle(token=lease.token, outcome=Outcome.DONE, links=found)
        answer = await self.session.exchange(settles=[settle])
        return answer.refused == {lease.token}

    async def lease(self) -> Lease:
        """Lease a page."""
        return (await self.session.exchange(want=1)).leases[0]


@pytest.fixture(scope="module")
def servers(
    redis_server: RunningServer, kafka_server: RunningServer, zookeeper_server: RunningServer
) -> Servers:
    """The monitors' servers; nothing else has filled the Redis."""
    return Servers(redis_server, kafka_server, zookeeper_server)


@pytest.fixture
async def _limited(redis: Redis) -> AsyncIterator[None]:
    """Whatever limit a test sets is lifted after it."""
    yield
    await redis.config_set("maxmemory", 0)


@pytest.mark.usefixtures("_limited")
async def test_a_full_redis_drains_by_itself(
    cluster: MonitorCluster,
    redis: Redis,
    frontier: Frontier,
    witness: Witness,
    wait_until: WaitUntil,
) -> None:
    """Its limit stays: outbox records are published, requests answered, backlog in Kafka enters."""
    crawler = Crawler(redis, cluster.keys)

    async def kinds() -> list[str]:
        return sorted({process.kind for process in await living(redis, cluster.keys)})

    async def is_queued() -> bool:
        return (await frontier.queries.state()).queued == PAGES + 1

    with cluster.kafka_monitor():
        seeds = [request("drains", number, rest=LONG) for number in range(PAGES)]
        witness.feed(request("doomed"), *seeds)
        await wait_until(is_queued)
        await redis.config_set("maxmemory", (await redis.info("memory"))["used_memory"])
        cluster.feed_in_order(
            "one", action("info", "drains", "asked"), action("stop", "doomed", "stopped"),
            request("later", uuid="told"),
        )  # fmt: skip
        # No stream has had a reader yet: the first one begins in a full Redis.
        with cluster.redis_monitor(**WIDE_OPEN, **GRACE):
            assert (await witness.answered("asked"))["uuid"] == "asked"
            assert (await witness.answered("stopped"))["uuid"] == "stopped"
            assert (await ending(witness, "doomed"))["event"] == "crawl_stopped"
            await wait_until(lambda: is_ruled(frontier))
            lease = await crawler.lease()
            ends_at = time.monotonic() + FULL_S
            while time.monotonic() < ends_at:
                used = await redis.info("memory")
                await redis.config_set("maxmemory", used["used_memory"])
                assert await crawler.refused(lease)
                await crawler.crawl(1)
                assert await kinds() == ["kafka-monitor", "redis-monitor"]
                await asyncio.sleep(0.5)
            assert not witness.events("later")
            await crawler.session.exchange(settles=[done(lease)])
            while await crawler.crawl(100):
                pass
            assert (await ending(witness, "drains"))["counters"]["done"] == PAGES
            await wait_until(lambda: is_nothing_owed(redis, cluster.keys))
            assert (await witness.answered("told"))["uuid"] == "told"
            # It may have come in before the last of the others were crawled.
            later = await wait_until(lambda: crawl_to_end(crawler, witness, "later"))
            assert later["counters"]["done"] == 1
            await wait_until(lambda: is_nothing_owed(redis, cluster.keys))


async def ending(witness: Witness, crawlid: str) -> dict[str, Any]:
    """The event that ends a crawl, which has no results here."""

    async def event() -> list[dict[str, Any]]:
        return [found] if (found := witness.ending(crawlid)) else []

    found: list[dict[str, Any]] = await wait_for(event, timeout_s=90)
    return found[0]


async def crawl_to_end(crawler: Crawler, witness: Witness, crawlid: str) -> dict[str, Any] | None:
    """Crawl a page, if there is one; the event that ends a crawl, once it is there."""
    await crawler.crawl(1)
    return witness.ending(crawlid)


def done(lease: Lease) -> Settle:
    """The end of a page that found nothing."""
    return Settle(token=lease.token, outcome=Outcome.DONE, reason="2xx")


async def is_ruled(frontier: Frontier) -> bool:
    """Return whether the throttle rules have arrived."""
    return await frontier.rules.table() is not None


async def is_nothing_owed(redis: Redis, keys: FrontierKeys) -> bool:
    """Return whether both streams are empty."""
    streams: Any = (keys.outbox(), keys.actions())
    return not any([await redis.xlen(stream) for stream in streams])
