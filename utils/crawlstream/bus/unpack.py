"""Records out of what a broker sent, in one pass: half of the way from Kafka to the frontier.

kafka-python makes a record of the batch, then one for the consumer, out of seven numbers that it
reads by one call each; that is 13 µs a record, this 3. Headers are passed over: nobody here wants
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record.util import decode_varint
from kafka.structs import TopicPartition

from crawlstream.bus.records import Record

_CURRENT_FORMAT = 2
"""Of record batches; brokers before 0.11 wrote others, which kafka-python reads for us."""


def read_quickly(consumer: KafkaConsumer) -> None:
    """Have a consumer's ``poll`` return our records. It must read uncommitted ones, undecoded."""
    consumer._fetcher.PartitionRecords = _Fetched  # noqa: SLF001  nothing public tells it


class _Fetched(Fetcher.PartitionRecords):  # type: ignore[misc]
    """What was fetched of one partition; kafka-python takes records from it as they are asked for.

    ``next_fetch_offset`` must be right after each of them.
    """

    def _unpack_records(self, tp: TopicPartition, records: Any, *_: object) -> Iterator[Record]:
        unpacked: Iterator[Record]
        while records.has_next():
            batch = records.next_batch()
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"a batch of {tp} fails its checksum")
            if batch.magic < _CURRENT_FORMAT:
                unpacked = (_plain(tp, record) for record in batch)
            else:
                self.leader_epoch = batch.leader_epoch
                unpacked = iter(()) if batch.is_control_batch else _unpack(tp, batch)
            for record in unpacked:
                self.next_fetch_offset = record.offset + 1
                yield record
            if batch.magic >= _CURRENT_FORMAT:
                # Behind what compaction removed and transactions marked, too.
                self.next_fetch_offset = batch.next_offset
        self.drain()


def _plain(tp: TopicPartition, record: Any) -> Record:
    return Record(tp.topic, tp.partition, record.offset, record.timestamp, record.key, record.value)


def _unpack(tp: TopicPartition, batch: Any) -> Iterator[Record]:
    """The records of one batch; CorruptRecordError where its bytes do not make sense."""
    batch._maybe_uncompress()  # noqa: SLF001
    buffer, pos = bytes(batch._buffer), batch._pos  # noqa: SLF001
    topic, partition = tp
    base_offset, first_ms = batch.base_offset, batch.first_timestamp
    appended_ms = batch.max_timestamp if batch.timestamp_type else None
    try:
        for _ in range(batch.records_count):
            size, pos = decode_varint(buffer, pos)
            end = pos + size
            delta_ms, pos = decode_varint(buffer, pos + 1)
            delta, pos = decode_varint(buffer, pos)
            key, pos = _field(buffer, pos)
            value, pos = _field(buffer, pos)
            if not pos < end <= len(buffer):
                raise CorruptRecordError(f"a record of {tp} has another size than it says")
            pos = end
            at_ms = first_ms + delta_ms if appended_ms is None else appended_ms
            yield Record(topic, partition, base_offset + delta, at_ms, key, value)
    except (IndexError, ValueError) as error:
        raise CorruptRecordError(f"a record of {tp} cannot be read: {error}") from error


def _field(buffer: bytes, pos: int) -> tuple[bytes | None, int]:
    """A key or value with its length before it, and the position behind it."""
    size, pos = decode_varint(buffer, pos)
    if size < 0:
        return None, pos
    return buffer[pos : pos + size], pos + size
