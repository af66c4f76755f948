"""A crawler process between a real frontier and a real Kafka, for tests."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Record
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.topics import ensure_topics
from crawlstream.keys import FrontierKeys, Topics
from crawlstream.model.crawl import CrawlKey, Entry, Profile
from crawlstream.model.credentials import scope_of
from crawlstream.model.effects import IntakeBatch, Loss, Seed
from crawlstream.model.request import RequestLimits
from crawlstream.model.state import CrawlState
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.url import domain_key, fingerprint, host_of
from crawlstream.model.web.throttle_groups import Group, Groups
from crawlstream.plugins.seeds import seed_fed
from crawlstream.wire.stored import encode_entry
from crawlstream_chaos.processes import LoggedCrawler
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.maintenance import FrontierLimits
from support.crawler.proxies import pools
from support.forks.program import ForkedCrawler

WIDE_OPEN = ThrottleRule(hits=1000, window_s=1, moderated=False, concurrency=64)


class CrawlerCluster:
    """Feeds the frontier as kafka-monitor does, and reads what the crawler brings."""

    def __init__(
        self, redis: Redis, redis_port: int, kafka_port: int, prefix: str, home: Path
    ) -> None:
        self._redis = redis
        self.frontier = Frontier(redis, FrontierKeys(), FrontierLimits(finish_grace_ms=300))
        self.topics = Topics(prefix)
        self._kafka = f"127.0.0.1:{kafka_port}"
        self._offset = 0
        self._rules = 0
        self.home = home
        self.env = {
            **os.environ,
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(redis_port),
            "KAFKA_HOSTS": self._kafka,
            "KAFKA_TOPIC_PREFIX": prefix,
            "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
            "CRAWLSTREAM_HOME": str(home),
            "ROBOTSTXT_OBEY": "false",
            "DOWNLOAD_TIMEOUT": "3",
            "LOG_JSON": "true",
            "LOG_LEVEL": "DEBUG",
        }

    async def prepare(self, default: ThrottleRule = WIDE_OPEN, **rules: ThrottleRule) -> None:
        """Create the topics and let rules of politeness hold; domains by their key."""
        await ensure_topics(Kafka([self._kafka], shape=TopicShape(partitions=1)), self.topics)
        await self._place()
        await self.set_rules(default, rules)

    async def set_rules(
        self,
        default: ThrottleRule,
        rules: dict[str, ThrottleRule],
        blacklist: frozenset[str] = frozenset(),
        groups: Mapping[str, Group[ThrottleRule]] | Groups[ThrottleRule] | None = None,
    ) -> None:
        """Replace the rules."""
        self._rules += 1
        table = ThrottleTable(
            default=default,
            rules=rules,
            blacklist=blacklist,
            groups=groups if isinstance(groups, Groups) else Groups(groups or {}),
            czxid=1,
            mzxid=self._rules,
        )
        assert await self.frontier.rules.copy(table)

    async def set_pools(self, text: str) -> None:
        """Replace the proxy pools; YAML as in ZooKeeper's node."""
        self._rules += 1
        assert await self.frontier.pools.copy(pools(text, self._rules))

    async def rewind(self) -> None:
        """Redis was emptied: what is fed comes from the same records."""
        self._offset = 0
        await self._place()

    async def _place(self) -> None:
        """Make a frontier that waits for the first record."""
        loss = Loss(topic_id="in", kafka_partition=0, offset=0)
        await self.frontier.positions.restore(loss)

    async def feed(
        self,
        *urls: str,
        crawlid: str = "crawl",
        priority: int = 1,
        written: Mapping[str, str] | None = None,
        **profile: Any,
    ) -> CrawlKey:
        """Admit seeds of one crawl; ``written`` has other texts for URLs of their entries."""
        crawl = CrawlKey(profile.pop("spiderid", "link"), "tests", crawlid)
        seeds: list[Seed] = []
        for url in urls:
            domain = domain_key(host_of(url))
            extra = profile.pop("entry", {})
            entry = Entry(
                url=(written or {}).get(url, url),
                origin=f"in-0-{self._offset + len(seeds)}",
                **extra,
            )
            seeds.append(
                Seed(
                    offset=self._offset + len(seeds),
                    timestamp_ms=1,
                    crawl=crawl,
                    domain=domain,
                    priority=priority,
                    fingerprint=fingerprint(url),
                    entry=encode_entry(entry),
                    profile=Profile(seed_url=url, site=scope_of(url), **profile),
                )
            )
        await self._put(seeds)
        return crawl

    async def ask(self, *requests: Mapping[str, Any]) -> CrawlKey:
        """Admit crawl requests as clients write them; the crawl of the last one."""
        seeds: list[Seed] = []
        for request in requests:
            fields = {"appid": "tests", "crawlid": "crawl", **request}
            offset, now_ms = self._offset + len(seeds), int(time.time() * 1000)
            record = Record("in", 0, offset, now_ms, None, json.dumps(fields).encode())
            seeds.append(seed_fed(fields, record, RequestLimits()))
        await self._put(seeds)
        return seeds[-1].crawl

    async def _put(self, seeds: Sequence[Seed]) -> None:
        end = self._offset + len(seeds)
        await self.frontier.intake.apply(
            IntakeBatch(
                topic_id="in", kafka_partition=0, start=self._offset, next=end, records=seeds
            )
        )
        self._offset = end

    @contextmanager
    def worker(self, spider: str = "link", **env: str) -> Iterator[LoggedCrawler]:
        """Run one crawler process for the length of the block."""
        crawler = ForkedCrawler(spider, {**self.env, **env}, self.home / f"{spider}.log")
        with crawler.running():
            yield crawler

    async def end_of(self, crawl: CrawlKey, *, timeout_s: float) -> CrawlState:
        """Wait until nothing of a crawl is in flight; return its ledger, which adds up."""
        deadline = time.monotonic() + timeout_s
        state = await self.state_of(crawl)
        while not state.admitted or state.pending or state.held:
            assert time.monotonic() < deadline, f"still under way after {timeout_s} s: {state}"
            await asyncio.sleep(0.02)
            state = await self.state_of(crawl)
        assert state.residual == 0
        return state

    async def finish(self, crawl: CrawlKey) -> None:
        """Bring a run that is idle to its end, as redis-monitor does."""
        while (await self.state_of(crawl)).is_under_way:
            await self.frontier.maintenance.tend()
            await asyncio.sleep(0.05)

    async def state_of(self, crawl: CrawlKey) -> CrawlState:
        """The ledger of a crawl that is known."""
        state = await self.frontier.queries.crawl_state(crawl)
        assert state is not None
        return state

    def records(self, topic: str) -> list[dict[str, Any]]:
        """Everything that a topic holds."""
        consumer = KafkaConsumer(
            bootstrap_servers=self._kafka, enable_auto_commit=False, auto_offset_reset="earliest",
            fetch_max_bytes=64 << 20, max_partition_fetch_bytes=64 << 20,
        )  # fmt: skip
        try:
            place = TopicPartition(topic, 0)
            consumer.assign([place])
            end = consumer.end_offsets([place])[place]
            consumer.seek_to_beginning(place)
            found: list[dict[str, Any]] = []
            while consumer.position(place) < end:
                for records in consumer.poll(timeout_ms=500).values():
                    found += [json.loads(record.value) for record in records]
            return found
        finally:
            consumer.close()

    def results(self) -> list[dict[str, Any]]:
        """Every page that was published."""
        return self.records(self.topics.crawled)

    def failures(self) -> dict[str, str]:
        """Reason by URL of the pages that failed."""
        return {e["url"]: e["reason"] for e in self.records(self.topics.events)}


def counted(records: list[dict[str, Any]]) -> Counter[str]:
    """How often each URL is among some records."""
    return Counter(record["url"] for record in records)
