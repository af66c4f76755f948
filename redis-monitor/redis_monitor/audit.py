"""The audit: whether every page that was admitted is accounted for, and the gauges of the cluster.

Every few seconds the ledgers of all crawls that are remembered are added up, some of them a call.
What they leave over, the *residual*, is 0 at every instant; anything else is a defect of ours, is
said aloud, and stands in ``/metrics`` and in ``crawlstream status``.
"""

from __future__ import annotations

from collections import Counter

import structlog
from prometheus_client import Counter as Metric
from prometheus_client import Gauge
from redis.asyncio import Redis

from crawlstream.frontier.care import Balance
from crawlstream.frontier.frontier import Frontier
from crawlstream.keys import FrontierKeys
from crawlstream.model.effects import Owed
from crawlstream.model.state import FrontierState
from crawlstream.stats.heartbeat import living

EVERY_S = 5.0
NAMED = 10
"""Crawls that are named in the log in one round; their number is always told."""

RESIDUAL = Gauge(
    "crawlstream_ledger_residual", "Pages that the ledgers cannot account for; must be 0."
)
UNBALANCED_ENDINGS = Metric(
    "crawlstream_unbalanced_endings", "Endings whose counters do not add up; must be 0."
)
CRAWLS = Gauge("crawlstream_crawls", "Crawls under way.")
ENTRIES = Gauge("crawlstream_entries", "Pages that wait or are in work.", ["state"])
WORKERS = Gauge("crawlstream_workers", "Workers that Redis knows.")
OWED = Gauge("crawlstream_records_owed", "Records that wait for a redis-monitor.", ["stream"])
DOMAINS = Gauge("crawlstream_domains", "Domains with pages that wait.", ["spider"])
MEMORY = Gauge("crawlstream_redis_memory_bytes", "Memory that Redis uses.")
FULL = Gauge("crawlstream_redis_full", "1 while seeds wait in Kafka for memory.")
PROCESSES = Gauge("crawlstream_processes", "Living processes.", ["kind", "version"])

ENDS = ("done", "failed", "redirected", "stopped", "expired")

log = structlog.get_logger()


def check_ending(ending: Owed) -> None:
    """Say it aloud if an ending does not account for every page that was admitted."""
    counters = ending.counters
    residual = counters.get("admitted", 0) - sum(counters.get(end, 0) for end in ENDS)
    if residual:
        UNBALANCED_ENDINGS.inc()
        log.error(
            "ledger",
            outcome="unbalanced",
            crawl=str(ending.crawl),
            run=ending.run,
            residual=residual,
        )


class Audit:
    """Adds the ledgers up, and tells the cluster's figures; safe beside any number of others."""

    def __init__(self, frontier: Frontier, redis: Redis, keys: FrontierKeys) -> None:
        self._frontier = frontier
        self._redis = redis
        self._keys = keys
        self._begun: Balance | None = None

    async def step(self) -> float:
        """Add up some thousand ledgers, where the step before ended."""
        balance = await self._frontier.balance(self._begun)
        self._begun = None if balance.is_whole else balance
        if balance.is_whole:
            _tell(balance)
        _show(await self._frontier.state())
        await self._show_processes()
        return EVERY_S

    async def _show_processes(self) -> None:
        processes = await living(self._redis, self._keys)
        PROCESSES.clear()
        for (kind, version), count in Counter((p.kind, p.version) for p in processes).items():
            PROCESSES.labels(kind, version).set(count)


def _tell(balance: Balance) -> None:
    """Say aloud what a round has found."""
    RESIDUAL.set(sum(map(abs, balance.found.values())))
    for crawl, residual in list(balance.found.items())[:NAMED]:
        log.error(
            "ledger",
            outcome="unbalanced",
            crawl=str(crawl or "all: held by workers"),
            residual=residual,
            crawls=len(balance.found),
        )


def _show(state: FrontierState) -> None:
    CRAWLS.set(state.crawls)
    for name, entries in (
        ("queued", state.queued),
        ("delayed", state.delayed),
        ("held", state.held),
        ("spilled", state.spilled),
    ):
        ENTRIES.labels(name).set(entries)
    WORKERS.set(state.workers)
    OWED.labels("outbox").set(state.outbox)
    OWED.labels("actions").set(state.actions)
    MEMORY.set(state.memory_used)
    FULL.set(state.is_full)
    DOMAINS.clear()
    for spider, backlog in state.backlog.items():
        DOMAINS.labels(spider).set(backlog["domains"])
