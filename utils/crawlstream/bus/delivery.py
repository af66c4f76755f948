"""A list of records in flight: counts Kafka's answers, and reports once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from kafka.errors import MessageSizeTooLargeError, RecordListTooLargeError

from crawlstream.bus.access.refusals import refusal_of
from crawlstream.bus.records import NO_OFFSET, NotAcknowledged, Out, RecordTooLarge

TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)


class Delivery:
    """Counts the answers to the records of one list.

    ``acknowledged`` and ``lost`` are called on whatever thread learns of it, one of them once a
    record; with the last answer ``finished`` is called, on that thread.
    """

    __slots__ = ("_errors", "_finished", "_lock", "_open", "offsets", "records", "since", "size")

    def __init__(self, records: Sequence[Out], finished: Callable[[Delivery], object]) -> None:
        self.records = records
        self.size = sum(record.size for record in records)
        self.since = 0.0
        """When it was handed over, by ``time.monotonic()``."""
        self.offsets = [NO_OFFSET] * len(records)
        """Where Kafka has each record in its partition. ``NO_OFFSET`` of one that it has: somewhere
        below the present end of the partition."""
        self._finished = finished
        self._open = len(records)
        self._errors: dict[int, Exception] = {}
        self._lock = threading.Lock()

    def acknowledged(self, position: int, metadata: Any) -> None:
        """Note that Kafka has the record at ``position``; ``metadata`` is from kafka-python."""
        self.offsets[position] = metadata.offset
        self._judged()

    def _judged(self) -> None:
        with self._lock:
            self._open -= 1
            is_last = self._open == 0
        if is_last:
            self._finished(self)

    def lost(self, position: int, error: Exception) -> None:
        """It is not known whether Kafka has the record at ``position``, or it does not want it."""
        self._errors[position] = error
        self._judged()

    def lost_from(self, position: int, error: Exception) -> None:
        """As ``lost``, for every record from ``position`` on."""
        for each in range(position, len(self.records)):
            self.lost(each, error)

    def outcome(self) -> NotAcknowledged | RecordTooLarge | None:
        """Return the error for the sender, once finished; None is success."""
        errors = sorted(self._errors.items())
        records = [self.records[position] for position, _ in errors]
        for position, error in errors:
            if not isinstance(error, TOO_LARGE):
                topic = self.records[position].topic
                why = refusal_of(error) or error
                return NotAcknowledged(f"Kafka did not acknowledge: {topic}: {why}", records)
        if errors:
            topic = records[0].topic
            return RecordTooLarge(
                f"Kafka rejected a record of topic {topic} because of its size: {errors[0][1]}",
                records,
            )
        return None


class PlacedDelivery(Delivery):
    """A list of one record, whose partition matters too."""

    __slots__ = ("partition",)

    def __init__(self, record: Out, finished: Callable[[Delivery], object]) -> None:
        super().__init__([record], finished)
        self.partition = -1

    def acknowledged(self, position: int, metadata: Any) -> None:
        """Note that Kafka has the record, and in which partition."""
        self.partition = metadata.partition
        super().acknowledged(position, metadata)
