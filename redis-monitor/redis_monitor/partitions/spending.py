"""Ends runs that have spent a budget in all partitions together."""

from __future__ import annotations

import time
from collections.abc import Sequence

import structlog

from crawlstream.errors import Unavailable
from crawlstream.model.partitions.messages import ContextKey, Look, Spent
from crawlstream.tasks import together
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.partition_calls.coordinator import Coordinator
from crawlstream_frontier.partitions.confirm import summed
from crawlstream_frontier.partitions.frontiers import Frontiers

PAUSE_S = 1.0
"""Pause between two looks. The duty that makes them sleeps as long at most: every two seconds the
spending of each run with budgets is known."""

log = structlog.get_logger()


class BudgetLooks:
    """Looks of one coordinator at what its runs with budgets have spent.

    A partition that does not answer counts for nothing: the others cannot spend more than the
    budget meanwhile. Without such a run it is one call to the coordinator.
    """

    def __init__(self, frontiers: Frontiers, coordinator: Coordinator) -> None:
        self._frontiers = frontiers
        self._coordinator = coordinator
        self._next_at = 0.0

    async def look(self) -> None:
        """Look, unless the last look was just now; the coordinator ends the runs that are over."""
        if time.monotonic() < self._next_at:
            return
        runs = await self._coordinator.spend([])
        contexts = [run.context for run in runs]
        found = await together(self._look_at(each, contexts) for each in self._frontiers if runs)
        looks = [look for look in found if look]
        spent = [
            Spent(run.context, run.run, budget)
            for number, run in enumerate(runs)
            if (budget := run.budgets.spent_by(summed(run, looks, number)))
        ]
        if spent:
            await self._coordinator.spend(spent)
        for context, run, budget in spent:
            log.info("homes", outcome="spent", crawl=str(context.crawl), run=run, budget=budget)
        self._next_at = time.monotonic() + PAUSE_S

    async def _look_at(self, frontier: Frontier, contexts: Sequence[ContextKey]) -> Look | None:
        try:
            return await frontier.contexts.look(contexts)
        except Unavailable:
            return None
