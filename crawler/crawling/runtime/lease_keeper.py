"""Keeps what a worker has leased its own: moves its deadline, and compares notes with Redis."""

from __future__ import annotations

import time

import structlog

from crawling.lease.holds import Holds
from crawling.publish.deadlines import Deadlines
from crawlstream.errors import RedisUnavailable
from crawlstream.frontier.frontier import Frontier

BEAT_EVERY_S = 5.0
_BEATS_PER_RECONCILE = 6
_BEAT_AGAIN_S = 1.0

log = structlog.get_logger()


class LeaseKeeper:
    """Beats whatever the pages do."""

    def __init__(
        self, frontier: Frontier, holds: Holds, deadlines: Deadlines, *, worker: str
    ) -> None:
        self._frontier = frontier
        self._holds = holds
        self._deadlines = deadlines
        self._worker = worker
        self._beats = 0

    async def beat(self) -> float:
        """Move the deadline once, and enforce those of pages; how many seconds to wait then."""
        left_at = time.monotonic()
        self._deadlines.enforce()
        try:
            life = await self._frontier.beat(self._worker)
            if not self._holds.heard(left_at, life):
                log.warning("beat", outcome="redis_restarted", life=life)
            self._beats += 1
            if self._beats % _BEATS_PER_RECONCILE == 0:
                await self._reconcile()
        except RedisUnavailable as error:
            log.warning("beat", outcome="no_answer", error=str(error))
            return _BEAT_AGAIN_S
        return BEAT_EVERY_S

    async def _reconcile(self) -> None:
        unknown = await self._frontier.reconcile(self._worker, self._holds.alive())
        for page in self._holds.lose(unknown):
            log.warning("reconcile", outcome="lost", url=page.hold.entry.url, id=page.id)
