"""Maintenance of the frontier, in bounded steps: dead workers, idle runs, expiry, sweeping."""

from __future__ import annotations

import structlog

from crawlstream_frontier.maintenance import FrontierMaintenance
from crawlstream_frontier.wake import Sleeper
from redis_monitor.metrics import REAPED

SHORTEST_S, LONGEST_S = 0.05, 2.5
"""Pause between two steps. The frontier clock gains at most 10 s between two calls, and where no
worker lives these are the only ones."""

log = structlog.get_logger()


class Maintenance:
    """Calls the frontier's maintenance; several instances may run.

    It sleeps until the next item falls due, or the frontier notifies it.
    """

    def __init__(self, maintenance: FrontierMaintenance, sleeper: Sleeper) -> None:
        self._maintenance = maintenance
        self._sleeper = sleeper

    async def step(self) -> float:
        """Make one step of maintenance, then sleep."""
        tended = await self._maintenance.tend()
        if tended.ended or tended.reaped:
            log.info("reap", ended=tended.ended, workers=tended.reaped)
        REAPED.inc(tended.reaped)
        if tended.more:
            return 0.0
        due_s = LONGEST_S if tended.next_ms is None else tended.next_ms / 1000
        await self._sleeper.sleep(min(max(due_s, SHORTEST_S), LONGEST_S))
        return 0.0
