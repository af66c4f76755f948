"""Warnings that Kafka may delete seeds of running crawls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.history import PartitionOffsets, marks_of, partition_offsets, read_all
from crawlstream.bus.topics import retention_ms
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.run_marks import Past, RunMark

DAY_MS = 24 * 3600 * 1000
NEAR = 0.1
"""Share of what a partition holds; a first seed that stands so near its beginning goes soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionFacts:
    """Running crawls, and the retention of their seeds, according to Kafka."""

    marks: Mapping[CrawlKey, RunMark]
    begun_ms: Mapping[CrawlKey, int]
    """When each run was noted, in epoch ms."""
    partitions: Mapping[int, PartitionOffsets]
    retention_ms: int
    """Retention in ms; -1: without a limit."""


async def retention_warnings(settings: Settings, *, now_ms: int) -> Sequence[str]:
    """Return a sentence for each running crawl that would lose seeds with Redis, now or soon.

    KafkaUnavailable if Kafka does not answer.
    """
    topics, kafka = settings.topics, kafka_of(settings)
    records, partitions, kept_ms = await asyncio.gather(
        read_all(kafka, topics.runs),
        partition_offsets(kafka, topics.incoming, group=settings.kafka_group),
        retention_ms(kafka, topics.incoming),
    )
    unfinished = Past(marks_of(records)).unfinished()
    noted = [(mark, record) for record in records for mark in marks_of([record])]
    of_runs = {
        mark.crawl: (mark, record.timestamp_ms)
        for mark, record in noted
        if unfinished.get(mark.crawl) == mark.run
    }
    known = RetentionFacts(
        marks={crawl: mark for crawl, (mark, _) in of_runs.items()},
        begun_ms={crawl: at_ms for crawl, (_, at_ms) in of_runs.items()},
        partitions=partitions,
        retention_ms=kept_ms,
    )
    return list(warnings_of(known, now_ms=now_ms))


def warnings_of(known: RetentionFacts, *, now_ms: int) -> Iterator[str]:
    """The warnings themselves, the worst of each crawl."""
    for crawl, mark in known.marks.items():
        name = f"crawl {crawl.crawlid} of {crawl.appid}"
        age_ms = now_ms - known.begun_ms[crawl]
        distances = [_distance(known.partitions, place, at) for place, at in mark.positions.items()]
        if min(distances, default=1.0) < 0:
            yield (
                f"{name}: Kafka has deleted records that may include its seeds, so it could not"
                " be restored if Redis were lost: back up Redis"
            )
        elif min(distances, default=1.0) < NEAR:
            yield (
                f"{name}: Kafka will soon delete its seeds, and then it could not be restored if"
                f" Redis were lost; {_REMEDY}"
            )
        elif 0 <= known.retention_ms < 2 * age_ms:
            yield (
                f"{name} has been running for {age_ms / DAY_MS:.1f} days, and Kafka deletes its"
                f" seeds after {known.retention_ms / DAY_MS:.1f} days; {_REMEDY}"
            )


_REMEDY = "raise retention.ms of the incoming topic"


def _distance(partitions: Mapping[int, PartitionOffsets], place: str, first: int) -> float:
    """Return the distance of a first seed from the oldest record, as a share; negative: deleted."""
    partition = partitions.get(int(place.rpartition(":")[2]))
    if partition is None or partition.oldest == 0:
        return 1.0
    return (first - partition.oldest) / max(partition.end - partition.oldest, 1)
