"""Feeding in bulk by hand: files of any length, tables, and going on after a fault."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from crawlstream.bus.tail import read_topic
from crawlstream.bus.topics import TopicShape, ensure_topics
from crawlstream.cli.app import run
from crawlstream.keys import Topics
from support.servers import RunningServer

TOTAL = 2500


@pytest.fixture
def hosts(
    kafka_server: RunningServer, fresh_name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[str]:
    """A Kafka with the topics of a cluster that the command line finds by the environment."""
    hosts = [f"127.0.0.1:{kafka_server.port}"]
    monkeypatch.setenv("KAFKA_HOSTS", hosts[0])
    monkeypatch.setenv("KAFKA_TOPIC_PREFIX", fresh_name)
    monkeypatch.setenv("CRAWLSTREAM_HOME", str(tmp_path))
    topics = Topics(fresh_name)
    making = ensure_topics(hosts, topics, TopicShape(partitions=1, max_record_bytes=1 << 20))
    asyncio.run(making)
    return hosts


def fed(hosts: list[str], topic: str) -> list[str]:
    """The crawlid of every record of a topic, in order."""

    async def read() -> list[str]:
        records = read_topic(hosts, topic, from_beginning=True, follow=False)
        return [json.loads(record.value or b"")["crawlid"] async for record in records]

    return asyncio.run(read())


def test_a_feed_that_was_interrupted_goes_on(
    hosts: list[str], fresh_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A torn line ends it and names the --skip; mended, the rest is fed, in order, once."""
    request = '{{"url": "http://a.example/", "appid": "app", "crawlid": "{}"}}\n'
    lines = [request.format(number) for number in range(TOTAL)]
    file = tmp_path / "seeds.ndjson"
    file.write_text("".join(lines[:2000]) + '{"url": ')
    assert run(["feed", str(file)]) == 1
    told = capsys.readouterr().err
    assert "line 2001 is not JSON" in told
    assert told.endswith("resume with --skip 2000\n")

    file.write_text("".join(lines))
    assert run(["feed", str(file), "--skip", "2000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fed"] == TOTAL - 2000
    assert fed(hosts, Topics(fresh_name).incoming) == [str(number) for number in range(TOTAL)]


def test_a_table_is_fed(
    hosts: list[str], fresh_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that ends in .csv is a table."""
    file = tmp_path / "seeds.csv"
    file.write_text("url,appid,crawlid\nhttp://a.example/,app,1\nhttp://b.example/,app,2\n")
    assert run(["feed", str(file)]) == 0
    assert capsys.readouterr().out == f"Fed 2 requests into {fresh_name}.incoming.\n"
    assert fed(hosts, Topics(fresh_name).incoming) == ["1", "2"]


def test_a_table_with_a_bad_row_says_where(
    hosts: list[str], fresh_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a quotation is refused, though it could be read as a cell that holds all the rest."""
    file = tmp_path / "seeds.csv"
    file.write_text('url,appid,crawlid\nhttp://a.example/,app,1\n"http://b.example/,app,2\n')
    assert run(["feed", str(file)]) == 1
    assert "line 3: unexpected end of data" in capsys.readouterr().err
    assert fed(hosts, Topics(fresh_name).incoming) == []
