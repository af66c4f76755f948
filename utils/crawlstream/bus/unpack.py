"""Parsing of a broker's record batches in one pass: half of the way from Kafka to the frontier.

kafka-python makes a record of the batch, then one for the consumer, out of seven numbers that it
reads with one call each; that is 13 µs per record, this is 3 µs. Headers are skipped, except
``traceparent`` where it is wanted.

A batch does not state its unpacked size. Small ones, nearly all, are unpacked as a whole. Larger
ones are read through a window as they unpack. Records within the size limit are returned. A larger
record is returned without a value and marked as too large. The rest of a batch after its last
permitted byte is reported once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.protocol.consumer import IsolationLevel
from kafka.record.util import decode_varint
from kafka.structs import TopicPartition

from crawlstream.bus.codecs import PieceTooLarge, pieces
from crawlstream.bus.records import Record

MAX_RECORD_BYTES = 16 * 1024 * 1024
"""Maximum size of a record's key, value and headers; topics are made for half of that."""

MAX_POLL_BYTES = 16 * 1024 * 1024
"""Maximum size of keys and values that one poll returns, and of one record."""

_WHOLE_BYTES = 8 * 1024 * 1024
"""Size up to which a batch is unpacked as a whole; most clients write 1 MiB at most."""
_MAX_BATCH_BYTES = 128 * 1024 * 1024
"""Unpacked; a tenth of a second to pass over."""

_CURRENT_FORMAT = 2
"""Format version of record batches; brokers before 0.11 wrote others, which kafka-python reads."""
_HEAD_BYTES = 32
"""Enough for a record's size, and for what stands before its key."""


Read = Callable[[TopicPartition, Any, bytes], Iterator[Record]]
_TRACEPARENT = re.compile(rb"\x16traceparent\x6e([0-9a-f-]{55})")
"""The header as it is in a record: each length before its text, doubled as varints are."""


def read_quickly(consumer: KafkaConsumer, *, traces: bool = False) -> None:
    """Have a consumer's ``poll`` return `Record` objects, which it must not decode."""
    fetcher = consumer._fetcher  # noqa: SLF001 no public name
    fetcher.PartitionRecords = _Traced if traces else _Fetched
    fetcher._append = partial(_append, fetcher._append)  # noqa: SLF001


def _append(append: Any, drained: Any, part: _Fetched, most: int, *others: object) -> int:
    """kafka-python's own; says that there were enough records when there were enough bytes."""
    taken: int = append(drained, part, most, *others)
    return most if part.has_paused else taken


class _Fetched(Fetcher.PartitionRecords):  # type: ignore[misc]
    """Fetched data of one partition; kafka-python takes records from it on request.

    ``next_fetch_offset`` must be right after each of them.
    """

    reads_traces = False
    has_paused = False
    """True if ``take`` has ended before its count because of the bytes that it had taken."""

    def take(self, n: int | None = None) -> list[Record]:
        """The next records, ``n`` at most, and none behind MAX_POLL_BYTES."""
        self._maybe_raise_next_inline_exception()
        records: list[Record] = []
        size, self.has_paused = 0, False
        try:
            for record in self.record_iterator:
                records.append(record)
                size += len(record.value or b"") + len(record.key or b"")
                self.has_paused = size >= MAX_POLL_BYTES
                if self.has_paused or len(records) == n:
                    break
        except Exception as error:
            if not records:
                raise
            self._next_inline_exception = error
        return records

    def _unpack_records(self, tp: TopicPartition, records: Any, *_: object) -> Iterator[Record]:
        while records.has_next():
            batch = records.next_batch()
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"a record batch of {tp} has a wrong checksum")
            for record in self._records_of(tp, batch):
                self.next_fetch_offset = record.offset + 1
                yield record
            if batch.magic >= _CURRENT_FORMAT:
                # Behind what compaction removed and transactions marked, too.
                self.next_fetch_offset = batch.next_offset
        self.drain()

    def _records_of(self, tp: TopicPartition, batch: Any) -> Iterator[Record]:
        if batch.magic < _CURRENT_FORMAT:
            return (_plain(tp, record) for record in batch)
        self.leader_epoch = batch.leader_epoch
        if self._is_void(batch) or batch.is_control_batch:
            return iter(())
        return _unpack(tp, batch, _read_traced if self.reads_traces else _read)

    def _is_void(self, batch: Any) -> bool:
        """Return whether a batch belongs to an aborted transaction, according to the broker."""
        if self.isolation_level != IsolationLevel.READ_COMMITTED or not batch.has_producer_id():
            return False
        self._consume_aborted_transactions_up_to(batch.last_offset)
        if self._contains_abort_marker(batch):
            self.aborted_producer_ids.discard(batch.producer_id)
        return bool(self._is_batch_aborted(batch))


class _Traced(_Fetched):
    """Data of one partition whose records have their headers ``traceparent``."""

    reads_traces = True


def _plain(tp: TopicPartition, record: Any) -> Record:
    return Record(tp.topic, tp.partition, record.offset, record.timestamp, record.key, record.value)


def _unpack(tp: TopicPartition, batch: Any, read: Read) -> Iterator[Record]:
    """The records of one batch; CorruptRecordError where its bytes do not make sense."""
    codec = batch.compression_type
    data = bytes(memoryview(batch._buffer)[batch._pos :])  # noqa: SLF001
    if not codec:
        return read(tp, batch, data)
    unpacked = pieces(codec, data)
    begin, size = [], 0
    try:
        for piece in unpacked:
            begin.append(piece)
            size += len(piece)
            if size > _WHOLE_BYTES:
                return _Window(tp, batch, iter((b"".join(begin),)), unpacked, read=read).records()
    except PieceTooLarge:
        return _Window(tp, batch, iter(begin), iter(()), read=read).records()
    return read(tp, batch, b"".join(begin))


def _read(tp: TopicPartition, batch: Any, buffer: bytes) -> Iterator[Record]:
    topic, partition = tp
    base_offset, first_ms = batch.base_offset, batch.first_timestamp
    appended_ms = batch.max_timestamp if batch.timestamp_type else None
    pos = 0
    try:
        for _ in range(batch.records_count):
            size, pos = decode_varint(buffer, pos)
            end = pos + size
            delta_ms, pos = decode_varint(buffer, pos + 1)
            delta, pos = decode_varint(buffer, pos)
            key, pos = _field(buffer, pos)
            value, pos = _field(buffer, pos)
            if not pos < end <= len(buffer):
                raise CorruptRecordError(f"a record of {tp} does not have the size in its header")
            pos = end
            at_ms = first_ms + delta_ms if appended_ms is None else appended_ms
            yield Record(topic, partition, base_offset + delta, at_ms, key, value)
    except (IndexError, ValueError) as error:
        raise CorruptRecordError(f"cannot read a record of {tp}: {error}") from error


def _read_traced(tp: TopicPartition, batch: Any, buffer: bytes) -> Iterator[Record]:
    """As ``_read``, with the header ``traceparent``: the first one, of those behind the value."""
    end = 0
    for record in _read(tp, batch, buffer):
        size, begin = decode_varint(buffer, end)
        end = begin + size
        headers = begin + len(record.key or b"") + len(record.value or b"")
        found = _TRACEPARENT.search(buffer, headers, end)
        yield record._replace(traceparent=found[1]) if found else record


def _field(buffer: bytes, pos: int) -> tuple[bytes | None, int]:
    """A key or value with its length before it, and the position behind it."""
    size, pos = decode_varint(buffer, pos)
    if size < 0:
        return None, pos
    return buffer[pos : pos + size], pos + size


class _End(Exception):
    """The pieces of a batch are at their end, or at the end of what is read of them."""


class _Window:
    """A large batch as it unpacks: of its bytes only those of the record at hand are kept."""

    def __init__(
        self,
        tp: TopicPartition,
        batch: Any,
        begin: Iterator[bytes],
        rest: Iterator[bytes],
        *,
        read: Read,
    ) -> None:
        self._tp = tp
        self._read = read
        self._batch = batch
        self._sources = [rest, begin]
        self._bytes = bytearray()
        self._passed = 0

    def records(self) -> Iterator[Record]:
        """Its records; those that are too large without a value, what was not read as one."""
        done, next_offset = 0, self._batch.base_offset
        try:
            while done < self._batch.records_count:
                for record in self._next():
                    done, next_offset = done + 1, record.offset + 1
                    yield record
        except _End:
            left = self._batch.records_count - done
            yield self._unread(
                next_offset,
                f"its batch is larger than {_MAX_BATCH_BYTES >> 20} MiB when decompressed: this"
                f" record and the {left - 1} records after it were not read",
            )
        except (IndexError, ValueError) as error:
            raise CorruptRecordError(f"cannot read a record of {self._tp}: {error}") from error

    def _next(self) -> Iterator[Record]:
        self._fill(_HEAD_BYTES)
        size, pos = decode_varint(self._bytes, 0)
        if size < 0:
            raise ValueError("negative size")
        if size > MAX_RECORD_BYTES:
            _, behind = decode_varint(self._bytes, pos + 1)
            delta, _ = decode_varint(self._bytes, behind)
            offset = self._batch.base_offset + delta
            yield self._unread(
                offset, f"its size is {size} bytes; the maximum is {MAX_RECORD_BYTES}"
            )
            self._pass(pos + size)
            return
        self._fill(pos + size)
        one = _Single(self._batch)
        yield from self._read(self._tp, one, bytes(self._bytes[: pos + size]))
        self._pass(pos + size)

    def _unread(self, offset: int, why: str) -> Record:
        topic, partition = self._tp
        return Record(topic, partition, offset, self._batch.max_timestamp, None, None, why)

    def _fill(self, size: int) -> None:
        """Have ``size`` bytes at hand, or all that are left; _End where there are none."""
        while len(self._bytes) < size:
            piece = self._piece()
            if piece is None:
                break
            self._bytes += piece
        if not self._bytes:
            raise _End

    def _pass(self, size: int) -> None:
        while len(self._bytes) < size:
            size -= len(self._bytes)
            self._bytes.clear()
            piece = self._piece()
            if piece is None:
                return
            self._bytes += piece
        del self._bytes[:size]

    def _piece(self) -> bytes | None:
        while self._sources:
            if self._passed > _MAX_BATCH_BYTES:
                raise _End
            try:
                piece = next(self._sources[-1], None)
            except PieceTooLarge:
                raise _End from None
            if piece is not None:
                self._passed += len(piece)
                return piece
            self._sources.pop()
        return None


class _Single:
    """The fields of a batch that `_read` uses, for one record of it."""

    records_count = 1

    def __init__(self, batch: Any) -> None:
        self.base_offset, self.first_timestamp = batch.base_offset, batch.first_timestamp
        self.max_timestamp, self.timestamp_type = batch.max_timestamp, batch.timestamp_type
