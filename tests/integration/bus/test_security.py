"""A Kafka that asks who is there: one place knows the answer, and every client gives it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import load_settings
from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.tail import read_topic
from crawlstream.bus.topics import ensure_topics, list_topics
from crawlstream.errors import KafkaUnavailable
from crawlstream.keys import Topics
from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.local import servers
from crawlstream_cli.local.home import find_jars
from crawlstream_cli.local.ports import free_block
from support.servers import running

_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[RunningServer]:
    """A Kafka that lets in ``crawler`` with the password ``s3cret`` only."""
    server = servers.kafka(tmp_path, port=free_block(2), jars=find_jars())
    conf = tmp_path / "conf" / "kafka.properties"
    lines = conf.read_text().replace("PLAINTEXT\\://", "PLAINTEXT://")
    lines = lines.replace("PLAINTEXT://", "SASL_PLAINTEXT://")
    lines += f"""
listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
security.inter.broker.protocol=SASL_PLAINTEXT
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config={_LOGIN} username="crawler" \\
  password="s3cret" user_crawler="s3cret";
"""
    conf.write_text(lines)
    servers.format_kafka(server)
    with running(server) as kafka:
        yield kafka


async def test_every_client_says_who_it_is(
    guarded: RunningServer, monkeypatch: pytest.MonkeyPatch, fresh_name: str
) -> None:
    """With the password topics are made, written and read; with a wrong one nothing is."""
    monkeypatch.setenv("KAFKA_HOSTS", f"127.0.0.1:{guarded.port}")
    monkeypatch.setenv("CRAWLSTREAM_KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("CRAWLSTREAM_KAFKA_SASL_USERNAME", "crawler")
    monkeypatch.setenv("CRAWLSTREAM_KAFKA_SASL_PASSWORD", "s3cret")
    monkeypatch.setenv("CRAWLSTREAM_MAX_RECORD_BYTES", str(1 << 20))
    kafka, topics = kafka_of(load_settings()), Topics(fresh_name)
    await ensure_topics(kafka, topics)
    async with KafkaSink(kafka) as sink:
        await sink.send([Out(topics.events, b"seen")])
    records = read_topic(kafka, topics.events, from_beginning=True, follow=False)
    assert [record.value async for record in records] == [b"seen"]

    monkeypatch.setenv("CRAWLSTREAM_KAFKA_SASL_PASSWORD", "wrong")
    with pytest.raises(KafkaUnavailable):
        await list_topics(kafka_of(load_settings()))
