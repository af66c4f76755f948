"""Consumer of requests: reads from the frontier's position, each record once.

The position in the frontier is authoritative: one script writes it together with the effects of a
batch. A batch that begins before the position is therefore applied in part or not at all. A batch
that begins after it is a *gap*: it is not applied, and its partition is read again from the
position. The group's commit in Kafka is a hint for lag tools and for the recovery of a lost Redis.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.protocols import Source
from crawlstream.bus.records import Batch, LostRecords
from crawlstream.errors import PositionGap

Locate = Callable[[str, int], Awaitable[int]]
"""(topic UUID, partition) -> the offset to read from. LostRecords: Kafka does not hold it."""

log = structlog.get_logger()


class PartitionConsumer:
    """Batches of one topic, with seek where a partition has to be read from another offset.

    Waits for services that do not answer, and reports them through ``liveness``.
    """

    def __init__(self, source: Source, locate: Locate, *, liveness: Liveness) -> None:
        self._source = source
        self._locate = locate
        self._liveness = liveness

    async def poll(self, timeout_s: float) -> Sequence[Batch]:
        """Next batches, at most one a partition; empty when none arrived within ``timeout_s``."""
        return await self._source.poll(timeout_s)

    async def apply(self, batch: Batch, effect: Callable[[], Awaitable[object]]) -> bool:
        """Let a batch take effect; False after a gap, when its partition is read again."""
        try:
            await effect()
        except PositionGap as gap:
            told = {"partition": batch.partition, "position": gap.position}
            log.warning("poll", outcome="gap", work=self._liveness.name, **told)
            await self.place(batch.topic_id, batch.partition)
            return False
        return True

    async def place(self, topic_id: str, partition: int) -> None:
        """Have a partition read again from the frontier's position."""
        locate = partial(self._locate, topic_id, partition)
        try:
            self._source.seek(partition, await self._liveness.retry(locate))
        except LostRecords as lost:
            self._source.ask(lost.where)

    async def commit(self, partition: int, offset: int) -> None:
        """Commit to Kafka how far a partition has taken effect, about once a second."""
        await self._source.commit({partition: offset})
