"""Keep the leases of a worker: extend its deadline, and reconcile its leases with Redis."""

from __future__ import annotations

import time

import structlog

from crawling.lease.leases import Leases
from crawling.publish.deadlines import Deadlines
from crawlstream.errors import RedisUnavailable
from crawlstream_frontier.worker.session import WorkerSession

BEAT_EVERY_S = 5.0
_BEATS_PER_RECONCILE = 6
_BEAT_AGAIN_S = 1.0

log = structlog.get_logger()


class LeaseKeeper:
    """Sends heartbeats, independent of the pages."""

    def __init__(self, session: WorkerSession, leases: Leases, deadlines: Deadlines) -> None:
        self._session = session
        self._partition = session.partition
        self._leases = leases
        self._deadlines = deadlines
        self._beats = 0

    async def beat(self) -> float:
        """Extend the deadline, enforce those of pages; return the seconds until the next beat."""
        left_at = time.monotonic()
        self._deadlines.enforce()
        try:
            epoch = await self._session.beat()
            if not self._leases.note_answer(self._partition, left_at, epoch):
                log.warning("beat", outcome="redis_restarted", life=epoch)
            self._beats += 1
            if self._beats % _BEATS_PER_RECONCILE == 0:
                await self._reconcile()
        except RedisUnavailable as error:
            log.warning("beat", outcome="no_answer", error=str(error))
            return _BEAT_AGAIN_S
        return BEAT_EVERY_S

    async def _reconcile(self) -> None:
        unknown = await self._session.reconcile(self._leases.of(self._partition).alive())
        for page in self._leases.lose(self._partition, unknown):
            log.warning("reconcile", outcome="lost", url=page.lease.entry.url, id=page.id)
