"""Fetched bytes become the records that kafka-python makes of them, or one error."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder
from kafka.structs import TopicPartition

from crawlstream.bus.records import Record
from crawlstream.bus.unpack import _Fetched

PLACE = TopicPartition("demo.incoming", 3)
UNCOMPRESSED, LZ4 = 0, 3


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
    """The next records; of what is drained nothing more can be asked."""
    return list(fetched.take(count)) if fetched else []


@pytest.mark.parametrize(
    "raw",
    [batch(), batch(LZ4), batch() + batch(LZ4, offset=200), batch(magic=1), b""],
    ids=["plain", "lz4", "two batches", "old format", "nothing"],
)
@pytest.mark.parametrize("first", [0, 1, 150, 199, 260])
def test_the_records_are_those_of_kafka_python(raw: bytes, first: int) -> None:
    """The same records, positions and epochs, wherever in a batch reading begins or pauses."""
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


def test_a_batch_with_a_wrong_checksum_is_refused() -> None:
    """Nothing of it is handed out."""
    raw = bytearray(batch())
    raw[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        _Fetched(0, PLACE, MemoryRecords(bytes(raw))).take(10)


def test_bytes_that_make_no_sense_raise_nothing_else() -> None:
    """Whatever stands in a batch whose checksum is right: records, or one error."""
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
