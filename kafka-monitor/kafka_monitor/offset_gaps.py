"""Positions that Kafka does not hold (any more): said aloud, never silently skipped."""

from __future__ import annotations

from collections.abc import Mapping

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

    def __init__(self, frontier: IntakeTarget, rejects: RejectionPublisher) -> None:
        self._frontier = frontier
        self._rejects = rejects

    async def decide(self, gap: OutOfRange) -> int | None:
        """The offset to read on from; None to stay paused. Unavailable: ask again."""
        sentence = _sentence(gap)
        log.error("poll", outcome="out_of_range", partition=gap.partition, error=sentence)
        await self._rejects.mark(
            "out_of_range", sentence, partition=gap.partition, offset=gap.position
        )
        if gap.has_lost_records:
            return None
        skip = IntakeBatch(
            topic_id=gap.topic_id,
            kafka_partition=gap.partition,
            start=gap.position,
            next=gap.log_start,
            records=(),
        )
        await self._frontier.apply(self._frontier.pack(skip))
        return gap.log_start


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
