"""Long queues: their middle goes to the shelf, and comes back before it is needed."""

from __future__ import annotations

import structlog

from crawlstream_frontier.shelves.stocking import Stocking
from crawlstream_frontier.wake import Sleeper
from redis_monitor.metrics import SHELF_PAGES

LONGEST_S = 2.5
"""Pause between two steps: queues that have become long can wait; one that runs short wakes us."""

log = structlog.get_logger()


class Shelving:
    """Carries chunks of pages to and from the shelf; several instances may run."""

    def __init__(self, stocking: Stocking, sleeper: Sleeper) -> None:
        self._stocking = stocking
        self._sleeper = sleeper

    async def step(self) -> float:
        """Make one step, then sleep."""
        done = await self._stocking.step()
        counts = {"shelved": done.shelved, "restocked": done.restocked, "lost": done.lost}
        for outcome, pages in counts.items():
            SHELF_PAGES.labels(outcome).inc(pages)
        if not done.is_idle:
            log.info("shelve", **counts)
            return 0.0
        due_s = LONGEST_S if done.next_ms is None else done.next_ms / 1000
        await self._sleeper.sleep(min(due_s, LONGEST_S))
        return 0.0
