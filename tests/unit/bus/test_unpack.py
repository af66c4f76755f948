"""Fetched bytes become the records that kafka-python makes of them, or one error."""

from __future__ import annotations

import gzip
import random
import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder
from kafka.structs import TopicPartition

from crawlstream.bus.codecs import MOST_PIECES, PIECE_BYTES, pieces
from crawlstream.bus.records import Record
from crawlstream.bus.unpack import MAX_RECORD_BYTES, _Fetched, _Traced

PLACE = TopicPartition("demo.incoming", 3)
UNCOMPRESSED, GZIP, SNAPPY, LZ4, ZSTD = range(5)


def batch(codec: int = UNCOMPRESSED, *, offset: int = 0, magic: int = 2) -> bytes:
    """Two hundred records of all sorts as a broker sends them."""
    builder = MemoryRecordsBuilder(magic, codec, 1 << 20, offset=offset)
    for number in range(200):
        key = None if number % 3 == 0 else b"k" * (number % 130)
        value = None if number % 7 == 0 else b"v" * (number * 40)
        headers = (
            [("name", b"x" * number), ("none", None)] if number % 5 == 0 and magic == 2 else []
        )
        builder.append(1_700_000_000_000 + 997 * number, key, value, headers)
    builder.close()
    return bytes(builder.buffer())


def rest(fetched: Any, count: int = 10_000) -> list[Any]:
    """The next records; a drained partition has no more."""
    return list(fetched.take(count)) if fetched else []


@pytest.mark.parametrize(
    "raw",
    [
        *(batch(), batch(GZIP), batch(SNAPPY), batch(LZ4), batch(ZSTD)),
        *(batch() + batch(LZ4, offset=200), batch(magic=1), b""),
    ],
    ids=["plain", "gzip", "snappy", "lz4", "zstd", "two batches", "old format", "nothing"],
)
@pytest.mark.parametrize("first", [0, 1, 150, 199, 260])
def test_the_records_are_those_of_kafka_python(raw: bytes, first: int) -> None:
    """Records, positions and epochs are equal, wherever in a batch reading begins or pauses."""
    theirs: Any = Fetcher.PartitionRecords(first, PLACE, MemoryRecords(raw))
    ours: Any = _Fetched(first, PLACE, MemoryRecords(raw))
    expected = [
        Record(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value) for r in rest(theirs)
    ]
    begin = rest(ours, 7)
    assert begin == expected[:7]
    if len(expected) > 7:
        assert ours.next_fetch_offset == begin[-1].offset + 1
    assert begin + rest(ours) == expected
    assert (ours.next_fetch_offset, ours.leader_epoch) == (
        theirs.next_fetch_offset,
        theirs.leader_epoch,
    )
    assert bool(ours) == bool(theirs)


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_gzip_members_are_read_one_after_the_other(size: int) -> None:
    """Reads gzip members one after the other, wherever one ends."""
    first, second = b"a" * size, bytes(range(256)) * 400
    packed = gzip.compress(first) + gzip.compress(second) + gzip.compress(b"")
    assert b"".join(pieces(1, packed)) == first + second
    with pytest.raises(CorruptRecordError):
        b"".join(pieces(1, packed[:-9]))


def test_parts_that_hold_nothing_are_bounded() -> None:
    """Refuses a batch of many empty members before it has cost a second."""
    since = time.process_time()
    with pytest.raises(CorruptRecordError, match="pieces"):
        b"".join(pieces(1, gzip.compress(b"") * (MOST_PIECES + 1)))
    assert time.process_time() - since < 5


def test_a_batch_with_a_wrong_checksum_is_refused() -> None:
    """Refuses a batch with a wrong checksum as a whole."""
    raw = bytearray(batch())
    raw[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        _Fetched(0, PLACE, MemoryRecords(bytes(raw))).take(10)


def test_bytes_that_make_no_sense_raise_nothing_else() -> None:
    """Returns records or raises one error, whatever a batch with a right checksum holds."""
    dice = random.Random(7)
    sound = batch()
    for _ in range(100):
        raw = bytearray(sound)
        for _ in range(20):
            raw[dice.randrange(61, len(raw))] = dice.randrange(256)
        try:
            _Fetched(0, PLACE, MemoryRecords(bytes(raw)), check_crcs=False).take(10_000)
        except CorruptRecordError:
            continue


@pytest.mark.parametrize("fill", [0, 9 << 20], ids=["whole", "window"])
@pytest.mark.parametrize("codec", [UNCOMPRESSED, GZIP])
def test_traces_are_read_where_they_are_wanted(codec: int, fill: int) -> None:
    """Reads the first ``traceparent`` behind a value, in batches of any size, and nothing else."""
    trace = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"
    in_value = b"\x16traceparent\x6e" + trace
    sent: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (None, b"v", [("other", b"x"), ("traceparent", trace), ("traceparent", b"c" * 55)]),
        (b"key", in_value, []),
        (in_value, in_value, [("traceparent", trace)]),
        (None, None, [("traceparent", None), ("tracestate", trace)]),
        (b"key", bytes(fill), [("traceparent", trace[:-1]), ("xtraceparent", trace)]),
        (b"last", b"", [("traceparent", trace)]),
    ]
    builder = MemoryRecordsBuilder(2, codec, 1 << 30, offset=7)
    for key, value, headers in sent:
        builder.append(1_700_000_000_000, key, value, headers)
    builder.close()
    raw = bytes(builder.buffer())
    plain: Any = _Fetched(0, PLACE, MemoryRecords(raw))
    traced: Any = _Traced(0, PLACE, MemoryRecords(raw))
    records, found = rest(plain), rest(traced)
    assert [r._replace(traceparent=b"") for r in found] == records
    assert not any(record.traceparent for record in records)
    assert [r.traceparent for r in found] == [trace, b"", trace, b"", b"", trace]


def bomb(codec: int, sizes: Sequence[int]) -> bytes:
    """A batch of zeros."""
    builder = MemoryRecordsBuilder(2, codec, 1 << 31)
    for size in sizes:
        builder.append(1_700_000_000_000, b"key", bytes(size), [])
    builder.close()
    return bytes(builder.buffer())


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize(
    "sizes",
    [[5, 20 << 20, 7], [3, 3, 80 << 20, *[9] * 40], [1 << 20] * 40, [90 << 20, 5, 90 << 20, 5, 5]],
    ids=["one", "one of many", "many", "without end"],
)
def test_a_batch_that_swells_is_read_in_bounds(codec: int, sizes: list[int]) -> None:
    """It takes at most 64 MiB and a second of CPU; each record is handed out, or told of."""
    raw = bomb(codec, sizes)
    begun = time.process_time()
    tracemalloc.start()
    try:
        fetched: Any = _Fetched(0, PLACE, MemoryRecords(raw))
        records: dict[int, int] = {}
        told = ""
        while fetched:
            for record in fetched.take(1_000):
                records[record.offset] = -1 if record.value is None else len(record.value)
                told = record.unread or told
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20
    assert time.process_time() - begun < 1
    assert fetched.next_fetch_offset == len(sizes)
    small = [-1 if size > MAX_RECORD_BYTES else size for size in sizes]
    if sum(sizes) > 128 << 20:
        assert list(records.values()) == [-1, 5, -1, -1]
        assert "and the 1 records after it" in told
        return
    assert list(records.values()) == small


def test_a_poll_is_bounded_in_bytes() -> None:
    """Batches of a few kilobytes that lease megabytes each come a few at a time."""
    raw = bomb(ZSTD, [1 << 20] * 60)
    fetched: Any = _Fetched(0, PLACE, MemoryRecords(raw))
    counts = []
    while fetched:
        counts.append(len(fetched.take(1_000)))
    assert counts == [16, 16, 16, 12]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_what_cannot_be_unpacked_is_corrupt(codec: int) -> None:
    """Bytes cut or changed behind the header give records, or one error."""
    dice = random.Random(codec)
    sound = batch(codec)
    for _ in range(200):
        raw = bytearray(sound)
        for _ in range(dice.randrange(1, 9)):
            raw[dice.randrange(61, len(raw))] = dice.randrange(256)
        try:
            _Fetched(0, PLACE, MemoryRecords(bytes(raw)), check_crcs=False).take(10_000)
        except CorruptRecordError:
            continue
    (header, body) = sound[:61], sound[61:]
    cut = bytearray(header + body[: len(body) // 2])
    cut[8:12] = (len(cut) - 12).to_bytes(4)
    fetched: Any = _Fetched(0, PLACE, MemoryRecords(bytes(cut)), check_crcs=False)
    with pytest.raises(CorruptRecordError):  # noqa: PT012  behind the records that it still holds
        while fetched:
            fetched.take(10_000)
