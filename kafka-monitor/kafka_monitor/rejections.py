"""Rejected records: published whole with a reason, and sent to the client as a reply."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from crawlstream.bus.outbound import Outbound
from crawlstream.bus.records import Out, Record, RecordTooLarge
from crawlstream.model.event import Rejection
from crawlstream.wire import rejects, replies, requests
from kafka_monitor.metrics import REJECTED

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that took no effect, and why."""

    record: Record
    reason: str
    problems: Sequence[str]


class RejectionPublisher:
    """Publishes rejections; a repeated one has the same key: topic, partition and offset."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound
        self._topics = outbound.topics

    async def publish(self, rejected: Sequence[RejectedRecord]) -> None:
        """Return when Kafka has all of them; KafkaUnavailable if it has not, then repeat."""
        records = [record for one in rejected for record in self._records(one)]
        if not records:
            return
        try:
            await self._outbound.send(records)
        except RecordTooLarge as error:
            log.warning("decode", outcome="cut", error=str(error))
            cut = [replace(one, record=one.record._replace(value=None)) for one in rejected]
            await self._outbound.send([record for one in cut for record in self._records(one)])
        for one in rejected:
            REJECTED.labels(one.reason).inc()

    async def mark(
        self,
        reason: str,
        sentence: str,
        *,
        partition: int,
        offset: int,
        place: str = "",
        topic: str = "",
    ) -> None:
        """Report records of a topic that are lost, from an offset on; errors as above.

        Without ``topic``, of ``incoming``. ``place`` stands for the offset in the key where the
        offset does not distinguish two losses.
        """
        topic = topic or self._topics.incoming
        rejection = Rejection(
            reason=reason,
            errors=[f"$: {sentence}"],
            raw=None,
            topic=topic,
            partition=partition,
            offset=offset,
        )
        key = f"{topic}-{partition}-{place or offset}".encode()
        await self._outbound.send([Out(self._topics.rejected, rejects.encode(rejection), key)])
        REJECTED.labels(reason).inc()

    def _records(self, rejected: RejectedRecord) -> list[Out]:
        record = rejected.record
        rejection = Rejection(
            reason=rejected.reason,
            errors=rejected.problems,
            raw=record.value,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
        )
        key = f"{record.topic}-{record.partition}-{record.offset}".encode()
        records = [Out(self._topics.rejected, rejects.encode(rejection), key)]
        ids = requests.readable_ids(record.value)
        if "uuid" in ids or ("appid" in ids and "crawlid" in ids):
            reply = replies.rejected(
                ids,
                reason=rejected.reason,
                errors=rejected.problems,
                server_time=int(time.time()),
            )
            records += self._outbound.reply(ids.get("appid", ""), reply)
        return records


def not_admitted(records: Sequence[Record], refused: Mapping[int, str]) -> list[RejectedRecord]:
    """Return the records that the frontier has refused, by offset."""
    return [
        RejectedRecord(record, reason, [f"$: not admitted to the frontier: {reason}"])
        for record in records
        if (reason := refused.get(record.offset))
    ]
