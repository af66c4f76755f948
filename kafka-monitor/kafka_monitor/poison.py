"""Poison: a record that kills its reader is found at no cost for other records, and rejected.

A monitor that dies leaves its partition at its position. A monitor that is assigned a partition
notes where it begins. If it begins where the last one began, the partition may hold such a record,
and is read *carefully* at first: record by record, with a note of each in Redis before it is
judged, deleted afterwards. A note that is found three times names the record; the first death
counts as one, although it left no note.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from crawlstream.bus.protocols import Locate
from crawlstream.bus.records import Batch
from crawlstream.errors import CrawlstreamError, FrontierFull, Unavailable
from crawlstream_frontier.intake import RECORDS_PER_CALL
from crawlstream_frontier.positions import Positions

DEATHS = 3
"""Monitors that may die at a record."""

CAREFUL_RECORDS = 2 * RECORDS_PER_CALL
"""Behind the position: one call's worth that was put when a monitor died, and one judged ahead."""

log = structlog.get_logger()


class PoisonDetector:
    """Knows which records are to be judged one by one, and which not at all."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self._careful_until: dict[int, int] = {}

    def noting(self, locate: Locate) -> Locate:
        """Return the answer of ``locate``, noted if Redis has room and answers.

        Errors as of ``locate``.
        """

        async def located(topic_id: str, partition: int) -> int | None:
            position = await locate(topic_id, partition)
            self._careful_until.pop(partition, None)
            if position is not None and await self._was_here(topic_id, partition, position):
                self._careful_until[partition] = position + CAREFUL_RECORDS
                log.info("poll", outcome="one_by_one", partition=partition, position=position)
            return position

        return located

    def most(self, batch: Batch) -> int:
        """Records of a batch that are judged together."""
        is_careful = batch.start < self._careful_until.get(batch.partition, 0)
        return 1 if is_careful else RECORDS_PER_CALL

    @asynccontextmanager
    async def watch(self, batch: Batch) -> AsyncIterator[bool]:
        """Note records judged in the block, if it is to be careful; yield whether it is poison."""
        if not batch.records or self.most(batch) > 1:
            yield False
            return
        place = batch.topic_id, batch.partition, batch.start
        is_poison = await self._begun(*place) >= DEATHS
        if is_poison:
            log.error("decode", outcome="poison", partition=batch.partition, offset=place[-1])
        try:
            yield is_poison
        finally:
            # Whatever went wrong in the block, this process lives. A note that stays counts one.
            with contextlib.suppress(CrawlstreamError):
                await self._positions.ended(*place)

    async def _was_here(self, topic_id: str, partition: int, position: int) -> bool:
        try:
            return await self._positions.assigned(topic_id, partition, position)
        except (FrontierFull, Unavailable):
            return False

    async def _begun(self, topic_id: str, partition: int, position: int) -> int:
        try:
            return await self._positions.begun(topic_id, partition, position)
        except (FrontierFull, Unavailable):
            return 0
