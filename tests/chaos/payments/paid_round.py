"""A crawl that pays, of a web that costs money, and what the auditor wants to know of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.tasks import beside
from crawlstream_chaos.facts.facts import APP, Facts, FedCrawl, Strike
from crawlstream_chaos.facts.spending import charged
from crawlstream_chaos.keyring import KeyRing
from crawlstream_chaos.processes import LoggedCrawler, RunningServer
from crawlstream_chaos.purse_watch import PurseWatch
from crawlstream_chaos.recorder import AccessLogReader, RecordingWitness
from crawlstream_chaos.scenes.paid import PURSE, prices_of
from crawlstream_cli.demo.access_log import AccessLog, LoggedRequest
from crawlstream_cli.demo.site import Site
from crawlstream_cli.demo.truth import FollowRules, expected_pages
from crawlstream_cli.demo.web import Web
from crawlstream_cli.local.ports import free_block
from crawlstream_frontier.egress.purse import Purse
from support.crawler.cluster import CrawlerCluster
from support.waiting import wait_until

DEPTH = 99
CALM = ThrottleRule(hits=8, window_s=1, moderated=True)
"""So that there are pages left for each fault."""
_LATE_S = 0.5


class PaidRound:
    """A crawl, whose crawlers are started one after the other in one place."""

    def __init__(self, cluster: CrawlerCluster, witness: RecordingWitness, web: Web) -> None:
        self.cluster = cluster
        self.web = web
        self.keyring = KeyRing(cluster.home / "keys")
        self.strikes: list[Strike] = []
        self.crawl = CrawlKey("link", APP, f"paid-{web.port}")
        self.log = AccessLogReader(cluster.home / "visits.jsonl")
        self._witness = witness
        prices = prices_of(web)
        self.budget = sum(prices.values()) // 2
        self.watch = PurseWatch(
            lambda: cluster.frontier.purses,
            self.visits,
            purse=Purse(name=PURSE, currency="USD", day=self.budget, total=self.budget),
            prices=prices,
            late_s=_LATE_S,
        )

    def visits(self) -> list[LoggedRequest]:
        """All that the site has seen so far."""
        self.log.read()
        return self.log.visits

    @property
    def bill(self) -> int:
        """Return the sum that the site has charged so far."""
        return sum(map(charged, self.visits()))

    @contextmanager
    def worker(self, **env: str) -> Iterator[LoggedCrawler]:
        """Run a crawler, which signs with the key of the ring."""
        settings = {**self.keyring.settings, "ROBOTSTXT_OBEY": "true"}
        with self.cluster.worker(**settings, **env) as crawler:
            yield crawler

    async def feed(self) -> None:
        """Feed the front page."""
        request = {"url": self.web.seed_url, "maxdepth": DEPTH, "purse": PURSE}
        await self.cluster.ask({**request, "appid": APP, "crawlid": self.crawl.crawlid})

    async def note(self, fault: str, target: str = "crawler") -> None:
        """Note a fault that strikes now."""
        held = (await self.cluster.state_of(self.crawl)).held
        at = time.monotonic() * 1000
        self.strikes.append(Strike(fault=fault, target=target, at=at, in_flight=held))

    async def die_at(self, step: str) -> None:
        """Let a crawler die the third time that it comes to a step."""
        with self.worker(FAILPOINT=f"{step}:kill:3") as worker:
            assert await asyncio.to_thread(worker.wait, 60) == -9
        await self.note("die-paying")

    async def restart_redis(self, server: RunningServer) -> None:
        """Kill Redis, and start it again."""
        await self.note("kill-redis", "redis")
        # On this thread: a server ends with the thread that started it.
        server.kill()
        server.start()

    def rotate_key(self) -> None:
        """Publish a new key, and let the next crawler sign with it."""
        key, path = self.keyring.new()
        self.keyring.note({each.keyid: each.x for each in (self.keyring.key, key)})
        self.keyring.sign_with(key, path)

    async def end(self) -> Facts:
        """Wait for the end of the crawl; return what was seen of it."""
        crawlid = self.crawl.crawlid
        done = (await self.cluster.end_of(self.crawl, timeout_s=60)).done
        results = self._witness.results
        await wait_until(lambda: len({each["id"] for each in results(crawlid)}) >= done)
        truth = expected_pages(self.web, FollowRules(maxdepth=DEPTH))
        failed = dict.fromkeys(truth.forbidden, "robots")
        fed = FedCrawl(crawlid=crawlid, delivered=truth.delivered, failed=failed)
        spending = await self.watch.spending()
        return Facts(
            fed=[fed],
            records=self._witness.crawl(crawlid),
            visits=self.visits(),
            strikes=self.strikes,
            published=tuple(self.keyring.published),
            spending=spending,
        )


@pytest.fixture(name="paid")
async def paid_fixture(
    redis: Redis,
    redis_server: RunningServer,
    kafka_server: RunningServer,
    fresh_name: str,
    tmp_path: Path,
) -> AsyncIterator[PaidRound]:
    """A round with its site, its operator and its witness."""
    cluster = CrawlerCluster(redis, redis_server.port, kafka_server.port, fresh_name, tmp_path)
    await cluster.prepare(CALM)
    web = Web(free_block(1), first_host="127.99.0.1", hosts=4, pages=150, slow_pages=0, priced=1)
    site = Site(web, AccessLog(cluster.home / "visits.jsonl"))
    witness = RecordingWitness(cluster.env["KAFKA_HOSTS"], cluster.env["KAFKA_TOPIC_PREFIX"])
    await site.start()
    try:
        round_ = PaidRound(cluster, witness, web)
        await round_.watch.open()
        async with beside(round_.watch.run()):
            yield round_
    finally:
        await site.stop()
        witness.close()
