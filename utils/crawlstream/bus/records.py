"""The values that cross between asyncio and Kafka's threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

from crawlstream.errors import CrawlstreamError, KafkaUnavailable

NO_OFFSET = -1
"""Kafka has not said where a record is: not yet, or not again after it had been sent twice."""


def name_of_topic(topic_id: UUID | str | None, topic: str) -> str:
    """Return the topic's UUID, which is never reused; its name with brokers before 2.8."""
    return str(topic_id) if topic_id and UUID(str(topic_id)).int else f"name:{topic}"


class Record(NamedTuple):
    """A record as it was read: bytes, never interpreted here."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    unread: str = ""
    """Why it comes without its value: a sentence; empty for all that was read."""
    traceparent: bytes = b""
    """Its header of this name, if the source reads it."""


@dataclass(frozen=True, slots=True)
class Out:
    """A record to be written.

    ``optional`` is for the topics of single applications: such a topic is created on first use,
    and where that fails the record is left out with a warning instead of holding up the rest.
    """

    topic: str
    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    optional: bool = False
    deletes: bool = False
    """A tombstone: it has no value, and its topic forgets what had its key."""
    partition: int | None = None
    """Number of the partition; None: by the key, or any if there is no key."""

    @property
    def size(self) -> int:
        """Bytes that it occupies while it waits for its acknowledgement."""
        return len(self.value) + len(self.key or b"")


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one partition: offsets from ``start`` up to ``next``.

    Offsets that hold no record (transaction marks, compaction) lie within some batch all the same:
    a batch begins where the one before it ended, or where the last seek went.
    """

    topic_id: str
    """UUID of the topic, so that a recreated topic is not taken for the old one."""
    partition: int
    start: int
    next: int
    records: Sequence[Record]
    leader_epoch: int = -1
    """Leader epoch of the last record, or of a later one; -1: the broker does not report it."""

    def chunks(self, size: int, most_bytes: int = sys.maxsize) -> Iterator[Batch]:
        """Cut into batches of at most ``size`` records that leave no offset uncovered.

        One of more than ``most_bytes``, by its values, holds a single record.
        """
        start, begin, weight = self.start, 0, 0
        for at, record in enumerate(self.records):
            weight += len(record.value or b"")
            if at > begin and (at - begin == size or weight > most_bytes):
                end = self.records[at - 1].offset + 1
                yield replace(self, start=start, next=end, records=self.records[begin:at])
                start, begin, weight = end, at, len(record.value or b"")
        if self.records:
            yield replace(self, start=start, records=self.records[begin:])


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much a source reads ahead."""

    records: int = 1_000
    """Maximum of one poll: few enough to be returned unused, enough for 80 000 per second."""
    fetch_bytes: int = 16 * 1024 * 1024
    """Maximum of one fetch, compressed; a larger record still arrives, alone."""
    polls: int = 4
    """That may wait to be taken, so that reading and working overlap."""


DEFAULT_LIMITS = ReadLimits()


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """A position that the partition does not hold (any more): records may be missing."""

    topic_id: str
    partition: int
    position: int
    log_start: int
    log_end: int
    has_diverged: bool = False
    """True if the log lost its end and grew again: the record at the position does not follow the
    records that were read. Leader epochs show it."""

    @property
    def has_lost_records(self) -> bool:
        """Return whether records that were read are lost, instead of unread ones deleted."""
        return self.has_diverged or self.position > self.log_end


class LostRecords(Exception):
    """Asked where a partition goes on: nowhere, for Kafka has lost what was read of it."""

    def __init__(self, where: OutOfRange) -> None:
        super().__init__(
            f"partition {where.partition} has changed: its offsets no longer match the known"
            " position"
        )
        self.where = where


class NotAcknowledged(KafkaUnavailable):
    """Kafka has not acknowledged every record of a list.

    ``records`` are those without an acknowledgement, in their order. Each may be in Kafka all the
    same (the reply was lost), so a repetition may double it: same key, same bytes.
    """

    def __init__(self, message: str, records: Sequence[Out]) -> None:
        super().__init__(message)
        self.records = records


class RecordTooLarge(CrawlstreamError):
    """Kafka refuses a record for its size; to repeat it unchanged is useless.

    ``records`` are the refused ones; all others of the list have been acknowledged.
    """

    def __init__(self, message: str, records: Sequence[Out]) -> None:
        super().__init__(message)
        self.records = records
