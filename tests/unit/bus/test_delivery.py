"""A list of records on its way."""

from __future__ import annotations

from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.structs import TopicPartition

from crawlstream.bus.delivery import Delivery
from crawlstream.bus.records import NO_OFFSET, NotAcknowledged, Out

RECORDS = [Out("topic", b"first"), Out("topic", b"second"), Out("topic", b"third")]


def _answered(delivery: Delivery, position: int, *, base: int) -> None:
    """As kafka-python reports the record at this position of a batch that begins at ``base``."""
    batch = FutureProduceResult(TopicPartition("topic", 0))
    future = FutureRecordMetadata(batch, position, 0, None, -1, 5, -1)
    future.add_callback(lambda metadata: delivery.acknowledged(position, metadata))
    batch.success((base, -1, None))


def test_a_record_that_was_sent_twice_is_there_somewhere() -> None:
    """Kafka says of a duplicate sequence that it has the record, and not where."""
    finished = list[Delivery]()
    delivery = Delivery(RECORDS, finished.append)
    _answered(delivery, 1, base=40)
    _answered(delivery, 0, base=-1)
    assert not finished
    _answered(delivery, 2, base=40)
    assert finished == [delivery]
    assert delivery.offsets == [NO_OFFSET, 41, 42]
    assert delivery.outcome() is None


def test_a_lost_record_has_no_offset() -> None:
    """It is named, the others have theirs."""
    delivery = Delivery(RECORDS, lambda _: None)
    _answered(delivery, 0, base=7)
    delivery.lost_from(1, OSError("gone"))
    assert delivery.offsets == [7, NO_OFFSET, NO_OFFSET]
    outcome = delivery.outcome()
    assert isinstance(outcome, NotAcknowledged)
    assert list(outcome.records) == RECORDS[1:]
