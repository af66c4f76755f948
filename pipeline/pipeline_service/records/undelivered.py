"""Records that cannot be delivered: to `<prefix>.undelivered`, whole and with their reason.

They are there before the position of the partition moves past them. A process that dies in between
sends them again, under the same key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import Out, OutOfRange, RecordTooLarge
from crawlstream.model.event import Rejection
from crawlstream.wire import jsontext
from pipeline_service.records import undelivered_records
from pipeline_service.records.judging import Judged, Undeliverable
from pipeline_service.records.undelivered_records import Undelivered
from pipeline_service.spec.config import Pipeline

OUT_OF_RANGE = "out_of_range"
WEBHOOK = "webhook"


class UndeliveredPublisher:
    """Publishes for one pipeline."""

    def __init__(self, pipeline: Pipeline, sink: Sink, *, topic: str, source: str) -> None:
        """``topic`` is where records go, ``source`` the topic that they come from."""
        self._pipeline = pipeline
        self._sink = sink
        self._topic = topic
        self._source = source

    async def publish(self, judged: Sequence[Judged]) -> None:
        """Return when Kafka has all that are undelivered; KafkaUnavailable: repeat."""
        outs = [self._out(each) for each in judged if isinstance(each, Undeliverable)]
        if outs:
            await send_undelivered(self._sink, outs)

    async def mark(self, where: OutOfRange) -> None:
        """Report records that Kafka has deleted before they were read; errors as above."""
        sentence = (
            f"Kafka had deleted the records from offset {where.position} to"
            f" {where.log_start - 1} before they were read"
        )
        rejection = Rejection(
            reason=OUT_OF_RANGE,
            errors=[f"$: {sentence}"],
            raw=None,
            topic=self._source,
            partition=where.partition,
            offset=where.position,
        )
        await send_undelivered(self._sink, [self._as_out(rejection)])

    def _out(self, judged: Undeliverable) -> Out:
        record = judged.record
        rejection = Rejection(
            reason=judged.reason,
            errors=judged.errors,
            raw=record.value,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
        )
        return self._as_out(rejection, stage=judged.stage, page_id=judged.id)

    def _as_out(self, rejection: Rejection, *, stage: str = "", page_id: str = "") -> Out:
        told = Undelivered(
            self._pipeline.name, self._pipeline.edition, rejection, stage=stage, id=page_id
        )
        return Out(self._topic, undelivered_records.encode(told), told.name.encode())


async def send_undelivered(sink: Sink, outs: Sequence[Out]) -> None:
    """Return when Kafka has the records; of those that are too large, without the original bytes.

    KafkaUnavailable: repeat.
    """
    try:
        await sink.send(outs)
    except RecordTooLarge as error:
        # The topic allows smaller records than crawlstream's topics: send the reason alone.
        await sink.send([replace(out, value=_emptied(out.value)) for out in error.records])


def unsent_change(pipeline: Pipeline, topic: str, value: str, why: str) -> Out:
    """Return the record of an event that a webhook has not taken, whole and with the reason.

    It is named by the place of the result that shows the change.
    """
    event: Any = jsontext.loads(value.encode())
    rejection = Rejection(
        reason=WEBHOOK,
        errors=[f"$: {why}"],
        raw=value.encode(),
        **event["result"],
        timestamp_ms=1_000 * event["server_time"],
    )
    told = Undelivered(pipeline.name, pipeline.edition, rejection, id=event["id"])
    return Out(topic, undelivered_records.encode(told), told.name.encode())


def _emptied(value: bytes) -> bytes:
    told = undelivered_records.decode(value)
    return undelivered_records.encode(replace(told, rejection=replace(told.rejection, raw=None)))
