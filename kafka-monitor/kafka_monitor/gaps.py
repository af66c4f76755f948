"""Positions that Kafka does not hold (any more): said aloud, never silently skipped."""

from __future__ import annotations

import structlog

from crawlstream.bus.records import Out, OutOfRange
from crawlstream.bus.sink import KafkaSink
from crawlstream.frontier.frontier import Frontier
from crawlstream.keys import Topics
from crawlstream.model.effects import IntakeBatch
from crawlstream.model.event import Rejection
from crawlstream.wire import rejects
from kafka_monitor.metrics import REJECTED

log = structlog.get_logger()


class Gaps:
    """Decides where a partition goes on whose next record is gone.

    Records that retention deleted before they took effect are marked on ``<prefix>.rejected``,
    and the position moves to the oldest record that is left. A log that ends before the position
    has lost records that did take effect: its new ones would be taken for those, so the
    partition stays paused until a person decides.
    """

    def __init__(self, frontier: Frontier, sink: KafkaSink, topics: Topics) -> None:
        self._frontier = frontier
        self._sink = sink
        self._topics = topics

    async def decide(self, gap: OutOfRange) -> int | None:
        """The offset to read on from; None to stay paused. Unavailable: ask again."""
        sentence = _sentence(gap)
        log.error("poll", outcome="out_of_range", partition=gap.partition, error=sentence)
        await self._mark(gap, sentence)
        if gap.position > gap.log_end:
            return None
        skip = IntakeBatch(
            topic_id=gap.topic_id,
            kafka_partition=gap.partition,
            start=gap.position,
            next=gap.log_start,
            records=(),
        )
        await self._frontier.intake(skip)
        return gap.log_start

    async def _mark(self, gap: OutOfRange, sentence: str) -> None:
        rejection = Rejection(
            reason="out_of_range",
            errors=[f"$: {sentence}"],
            raw=None,
            topic=self._topics.incoming,
            partition=gap.partition,
            offset=gap.position,
        )
        key = f"{self._topics.incoming}-{gap.partition}-{gap.position}".encode()
        await self._sink.send([Out(self._topics.rejected, rejects.encode(rejection), key)])
        REJECTED.labels(rejection.reason).inc()
        REJECTED.labels(rejection.reason).inc()


def _sentence(gap: OutOfRange) -> str:
    if gap.position > gap.log_end:
        return (
            f"the log ends at offset {gap.log_end}, but records up to {gap.position} have taken "
            "effect: Kafka has lost records"
        )
    return (
        f"records from offset {gap.position} to {gap.log_start} were deleted before they took "
        "effect"
    )
