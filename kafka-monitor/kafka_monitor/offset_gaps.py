"""Positions that Kafka does not hold (any more): said aloud, never silently skipped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import structlog

from crawlstream.bus.records import OutOfRange
from crawlstream.model.effects import IntakeBatch
from kafka_monitor.rejections import RejectionPublisher
from kafka_monitor.request_intake import IntakeTarget

log = structlog.get_logger()


class OffsetGapPolicy:
    """Decides where a partition goes on whose next record is gone.

    Records that retention deleted before they took effect are marked on ``<prefix>.rejected``,
    and the position moves to the oldest record that is left. A log that ends before the position
    has lost records that did take effect, and one that is seen to have grown again, too: its new
    ones would be taken for those, so the partition stays paused until a person decides.
    """

    def __init__(
        self,
        skip: Callable[[OutOfRange], Awaitable[object]],
        rejects: RejectionPublisher,
        *,
        topic: str,
        reason: str = "out_of_range",
        sentence: Callable[[OutOfRange], str] | None = None,
    ) -> None:
        """``skip`` moves the position to the oldest record of ``topic`` that is left."""
        self._skip = skip
        self._rejects = rejects
        self._topic = topic
        self._reason = reason
        self._sentence = sentence or _sentence

    async def decide(self, gap: OutOfRange) -> int | None:
        """The offset to read on from; None to stay paused. Unavailable: ask again."""
        sentence = self._sentence(gap)
        log.error(
            "poll",
            outcome="out_of_range",
            topic=self._topic,
            partition=gap.partition,
            error=sentence,
        )
        await self._rejects.mark(
            self._reason,
            sentence,
            topic=self._topic,
            partition=gap.partition,
            offset=gap.position,
        )
        if gap.has_lost_records:
            return None
        await self._skip(gap)
        return gap.log_start


async def skip_requests(frontier: IntakeTarget, gap: OutOfRange) -> None:
    """Move the position of a Kafka partition of requests behind what Kafka has deleted."""
    batch = IntakeBatch(
        topic_id=gap.topic_id,
        kafka_partition=gap.partition,
        start=gap.position,
        next=gap.log_start,
        records=(),
    )
    await frontier.apply(frontier.pack(batch))


def problem_of(paused: Mapping[int, OutOfRange]) -> str:
    """Return the health problem of partitions that stay paused; empty if none does."""
    return "; ".join(f"partition {p}: {_sentence(where)}" for p, where in paused.items())


def _sentence(gap: OutOfRange) -> str:
    if gap.has_lost_records:
        return (
            f"Kafka has lost records: the log ends at offset {gap.log_end}, but records up to"
            f" {gap.position} have taken effect"
            + (", and new records were written since" if gap.position <= gap.log_end else "")
            + (
                "; the partition is paused until you run: crawlstream recover --partition"
                f" {gap.partition}"
            )
        )
    return (
        f"Kafka deleted the records from offset {gap.position} to {gap.log_start} before they"
        " took effect"
    )
