"""The record of a page that a reply names."""

from __future__ import annotations

import asyncio

from crawlstream.bus.record_reader import WantedRecord
from crawlstream.bus.records import Record
from crawlstream.model.delivered import Delivered
from crawlstream.model.event import PageReply
from crawlstream.wire import delivered
from rest_service.service import Service

_ENVELOPE_BYTES = 64 * 1024
"""Bytes of a record besides its body, mostly links."""


def record_bytes(reply: PageReply) -> int:
    """Return about how many bytes the record has: take them before it is read."""
    return (reply.body_size or 0) * 4 // 3 + _ENVELOPE_BYTES


async def read_record(service: Service, reply: PageReply) -> Record | None:
    """Return the record; None: there was none, or Kafka has deleted it. KafkaUnavailable."""
    if reply.place is None:
        return None
    key = reply.id.encode() if reply.id else None
    topic = service.topics.crawled
    place = reply.place
    return await service.records.read(WantedRecord(topic, place.partition, place.offset, key))


async def page_in(record: Record) -> Delivered | None:
    """Return the page of a record, decoded in a thread; None: it has none."""
    try:
        return await asyncio.to_thread(delivered.decode, record.value)
    except delivered.NotAResult:
        return None
