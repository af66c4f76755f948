"""One consumer for requests and for spilled links: read from the frontier's position, once each.

The position in the frontier is the truth, and moves with the effects of a batch, in one script. So
a batch that begins behind it is applied in part or not at all, and one that begins after it, a
*gap*, is not applied: its partition is read again from the position. The group's commit in Kafka is
a hint for lag tools and for the recovery of a lost Redis.
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
    """Batches of one topic, and what is done when a partition is to be read from elsewhere.

    Services that do not answer are waited for, as ``liveness`` tells.
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
        """Tell Kafka how far a partition has taken effect, about once a second."""
        await self._source.commit({partition: offset})

    def pause(self) -> None:
        """Fetch nothing more for now, but stay a member of the group."""
        self._source.pause()

    def resume(self) -> None:
        """Fetch again."""
        self._source.resume()
