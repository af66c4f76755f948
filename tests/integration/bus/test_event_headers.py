"""Headers of CloudEvents on the records of the topic of events, of every sender."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaConsumer

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import load_settings
from crawlstream.bus.factory import make_sink
from crawlstream.bus.records import Out
from crawlstream.bus.topics import ensure_topics
from support.bus.pipe import LEAVES_SOCKETS

pytest_plugins = ["support.bus.fixtures"]
pytestmark = LEAVES_SOCKETS

VALUE = b'{"event":"page_failed","id":"3d0f","url":"http://a/","server_time":1795251152}'


@pytest.mark.parametrize("is_on", [True, False])
async def test_events_have_headers_and_other_records_have_none(
    hosts: list[str], fresh_name: str, monkeypatch: pytest.MonkeyPatch, *, is_on: bool
) -> None:
    """Key and value are those of the sender; the setting removes the headers."""
    monkeypatch.setenv("KAFKA_HOSTS", ",".join(hosts))
    monkeypatch.setenv("KAFKA_TOPIC_PREFIX", fresh_name)
    monkeypatch.setenv("CRAWLSTREAM_CLOUDEVENTS", str(is_on).lower())
    settings = load_settings()
    kafka, topics = kafka_of(settings), settings.topics
    await ensure_topics(kafka, topics)
    async with make_sink(kafka) as sink:
        await sink.send([Out(topic, VALUE, b"3d0f") for topic in (topics.events, topics.rejected)])
    consumer = KafkaConsumer(
        *(topics.events, topics.rejected), bootstrap_servers=hosts, auto_offset_reset="earliest"
    )
    try:
        found: dict[str, Any] = {}
        while len(found) < 2:
            for records in consumer.poll(timeout_ms=200).values():
                found |= {record.topic: record for record in records}
    finally:
        consumer.close()
    assert {(record.key, record.value) for record in found.values()} == {(b"3d0f", VALUE)}
    assert not found[topics.rejected].headers
    headers = {name: value.decode() for name, value in found[topics.events].headers}
    assert headers == (
        {
            "content-type": "application/json",
            "ce_specversion": "1.0",
            "ce_id": "page_failed:3d0f",
            "ce_source": f"/crawlstream/{fresh_name}",
            "ce_type": "crawlstream.page_failed",
            "ce_subject": "http://a/",
            "ce_time": "2026-11-21T08:52:32Z",
        }
        if is_on
        else {}
    )
