"""Audit: checks that every page that was admitted is accounted for, and publishes cluster figures.

Every few seconds the ledgers of all known crawls are added up, some of them a call. The rest, the
*residual*, is 0 at every instant. Any other value is a bug of crawlstream: it is logged, and shown
in ``/metrics`` and in ``crawlstream status``.
"""

from __future__ import annotations

from collections.abc import Collection

import structlog

from crawlstream.errors import RedisUnavailable
from crawlstream.model.effects import OutboxRecord
from crawlstream.model.state import FrontierState
from crawlstream.model.statuses import PAGE_ENDS
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.maintenance import Balance
from crawlstream_frontier.partitions.frontiers import Frontiers
from redis_monitor import metrics

EVERY_S = 5.0
NAMED = 10
"""Crawls that are named in the log in one round; their number is always told."""

log = structlog.get_logger()


def check_ending(ending: OutboxRecord) -> None:
    """Log an error if an ending does not account for every page that was admitted."""
    counters = ending.counters
    residual = counters.get("admitted", 0) - sum(counters.get(end, 0) for end in PAGE_ENDS)
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
    """Adds up the ledgers, and publishes the cluster's figures; several instances may run."""

    def __init__(self, frontier: Frontiers) -> None:
        self._frontier = frontier
        self._begun: dict[str, Balance] = {}
        """Rounds that are not whole yet, by the prefix of their partition."""
        self._whole: dict[str, Balance] = {}
        """The latest whole round of each partition."""

    async def step(self) -> float:
        """Add up some thousand ledgers of each partition, where the step before ended."""
        try:
            answers = await self._frontier.query(self._add_up)
        except RedisUnavailable:
            self._show_missing(range(len(self._frontier)))
            raise
        self._show_missing(answers.missing)
        if self._whole:
            rounds = self._whole.values()
            metrics.OLDEST_WAIT.set(max(each.longest_wait_ms for each in rounds) / 1000)
            metrics.RESIDUAL.set(sum(abs(n) for each in rounds for n in each.found.values()))
        _show(await self._frontier.queries.state())
        return EVERY_S

    async def _add_up(self, frontier: Frontier) -> None:
        tag = frontier.scripts.keys.tag
        balance = await frontier.maintenance.balance(self._begun.pop(tag, None))
        if balance.is_whole:
            self._whole[tag] = balance
            _tell(balance)
        else:
            self._begun[tag] = balance

    def _show_missing(self, missing: Collection[int]) -> None:
        for p in range(len(self._frontier)):
            metrics.PARTITION_UP.labels(f"{p}").set(p not in missing)


def _tell(balance: Balance) -> None:
    """Log the result of a round."""
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
