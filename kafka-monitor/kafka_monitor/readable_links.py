"""Batches of links, as kafka-monitor reads them from either topic: what can be read of them."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from crawlstream.bus.records import Batch, OutOfRange
from crawlstream_frontier.codec.link_batch import LinkBatch, LinkRecord
from kafka_monitor.rejections import RejectedRecord, RejectionPublisher

log = structlog.get_logger()


async def readable_in(
    batch: Batch,
    read: Callable[[int, bytes | None], LinkRecord],
    rejects: RejectionPublisher,
    *,
    work: str,
    reason: str,
) -> LinkBatch:
    """Return the records that ``read`` accepts; report the others under ``reason``.

    ``work`` is the event in the log. KafkaUnavailable: not all are reported, so repeat.
    """
    found: list[LinkRecord] = []
    rejected: list[RejectedRecord] = []
    for record in batch.records:
        try:
            found.append(read(record.offset, record.value))
        except ValueError as error:
            log.error(work, outcome="unreadable", offset=record.offset, why=str(error))  # noqa: TRY400  a sentence for people
            rejected.append(RejectedRecord(record, reason, [f"$: {error}"]))
    await rejects.publish(rejected)
    return LinkBatch(
        topic_id=batch.topic_id,
        kafka_partition=batch.partition,
        start=batch.start,
        next=batch.next,
        records=found,
    )


def skipped(gap: OutOfRange) -> LinkBatch:
    """Return what Kafka has deleted, as a batch without records: it moves the position."""
    return LinkBatch(
        topic_id=gap.topic_id,
        kafka_partition=gap.partition,
        start=gap.position,
        next=gap.log_start,
        records=(),
    )
