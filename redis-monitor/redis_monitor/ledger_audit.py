"""The audit: whether every page that was admitted is accounted for, and the frontier at a glance.

Every few seconds the ledgers of all crawls that are remembered are added up, some of them a call.
What they leave over, the *residual*, is 0 at every instant; anything else is a defect of ours, is
said aloud, and stands in ``/metrics`` and in ``crawlstream status``.
"""

from __future__ import annotations

import structlog

from crawlstream.frontier.maintenance import Balance, FrontierMaintenance
from crawlstream.frontier.queries import FrontierQueries
from crawlstream.model.effects import OutboxRecord
from crawlstream.model.state import FrontierState
from redis_monitor import metrics

EVERY_S = 5.0
NAMED = 10
"""Crawls that are named in the log in one round; their number is always told."""

ENDS = ("done", "failed", "redirected", "stopped", "expired")

log = structlog.get_logger()


def check_ending(ending: OutboxRecord) -> None:
    """Say it aloud if an ending does not account for every page that was admitted."""
    counters = ending.counters
    residual = counters.get("admitted", 0) - sum(counters.get(end, 0) for end in ENDS)
    if residual:
        metrics.UNBALANCED_ENDINGS.inc()
        log.error(
            "ledger",
            outcome="unbalanced",
            crawl=str(ending.crawl),
            run=ending.run,
            residual=residual,
        )


class LedgerAudit:
    """Adds the ledgers up, and tells the cluster's figures; safe beside any number of others."""

    def __init__(self, maintenance: FrontierMaintenance, queries: FrontierQueries) -> None:
        self._maintenance = maintenance
        self._queries = queries
        self._begun: Balance | None = None

    async def step(self) -> float:
        """Add up some thousand ledgers, where the step before ended."""
        balance = await self._maintenance.balance(self._begun)
        self._begun = None if balance.is_whole else balance
        if balance.is_whole:
            _tell(balance)
        _show(await self._queries.state())
        return EVERY_S


def _tell(balance: Balance) -> None:
    """Say aloud what a round has found."""
    metrics.OLDEST_WAIT.set(balance.longest_wait_ms / 1000)
    metrics.RESIDUAL.set(sum(map(abs, balance.found.values())))
    for crawl, residual in list(balance.found.items())[:NAMED]:
        log.error(
            "ledger",
            outcome="unbalanced",
            crawl=str(crawl or "all: held by workers"),
            residual=residual,
            crawls=len(balance.found),
        )


def _show(state: FrontierState) -> None:
    metrics.CRAWLS.set(state.crawls)
    for name, entries in (
        ("queued", state.queued),
        ("delayed", state.delayed),
        ("held", state.held),
        ("spilled", state.spilled),
    ):
        metrics.ENTRIES.labels(name).set(entries)
    metrics.SHELVED.set(state.shelved)
    metrics.SHELF_CHUNKS.set(state.shelf_chunks)
    metrics.WORKERS.set(state.workers)
    metrics.OWED.labels("outbox").set(state.outbox)
    metrics.OWED.labels("actions").set(state.actions)
    metrics.MEMORY.set(state.memory_used)
    metrics.MEMORY_LIMIT.set(state.memory_limit)
    metrics.FULL.set(state.is_full)
    metrics.DOMAINS.clear()
    for spider, backlog in state.backlog.items():
        metrics.DOMAINS.labels(spider).set(backlog["domains"])
