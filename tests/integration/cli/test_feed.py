"""Feeding in bulk by hand: files of any length, tables, and going on after a fault."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest

from crawlstream.bus.connect import Kafka
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.tail import read_topic
from crawlstream.bus.topics import ensure_topics
from crawlstream.keys import Topics
from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.app import run

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
    making = ensure_topics(
        Kafka(hosts, shape=TopicShape(partitions=1, max_record_bytes=1 << 20)), topics
    )
    asyncio.run(making)
    return hosts


def fed(hosts: list[str], topic: str) -> list[str]:
    """The crawlid of every record of a topic, in order."""

    async def read() -> list[str]:
        records = read_topic(Kafka(hosts), topic, from_beginning=True, follow=False)
        return [json.loads(record.value or b"")["crawlid"] async for record in records]

    return asyncio.run(read())


REQUEST = '{{"url": "http://a.example.com/", "appid": "app", "crawlid": "{}"}}\n'


def test_a_feed_that_was_interrupted_goes_on(
    hosts: list[str], fresh_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A torn line ends one without checks and names the --skip; mended, the rest is fed once."""
    lines = [REQUEST.format(number) for number in range(TOTAL)]
    file = tmp_path / "seeds.ndjson"
    file.write_text("".join(lines[:2000]) + '{"url": ')
    assert run(["feed", str(file), "--no-check"]) == 1
    told = capsys.readouterr().err
    assert "line 2001: not JSON" in told
    assert told.endswith("resume with --skip 2000\n")

    file.write_text("".join(lines))
    assert run(["feed", str(file), "--skip", "2000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fed"] == TOTAL - 2000
    assert fed(hosts, Topics(fresh_name).incoming) == [str(number) for number in range(TOTAL)]


_MIXED = (
    "url,appid,crawlid,maxdepth\n"
    "http://a.example.com/,my-app,1,\n"
    "http://b.example.com/,nc,1,\n"
    "http://c.example.com/,my-app,1,abc\n"
    "http://notaurl,my-app,1,\n"
)


_NONE = "so none was sent (--partial sends the others)"


def test_nothing_is_fed_unless_all_is_right(
    hosts: list[str], fresh_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line and reason of each that would be refused; --partial sends the others."""
    file = tmp_path / "seeds.csv"
    file.write_text(_MIXED)
    refused = [
        "line 3: appid: must have 3-40 characters (got 2)",
        "line 4: maxdepth: must be integer, not a string",
        "warning: line 5: notaurl: a host name without a dot; no such top-level domain",
    ]
    for words in ((), ("--dry-run",)):
        assert run(["feed", str(file), *words]) == 1
        assert capsys.readouterr().err.splitlines() == [
            *refused,
            f"crawlstream: 2 of 4 requests would be refused, {_NONE}",
        ]
    assert fed(hosts, Topics(fresh_name).incoming) == []

    assert run(["feed", str(file), "--partial"]) == 0
    shown = capsys.readouterr()
    assert shown.err.splitlines() == refused
    assert shown.out.splitlines() == [
        f"Fed 2 requests into {fresh_name}.incoming; 2 invalid ones were left out.",
        "Progress: ./crawlstream info 1",
    ]
    assert fed(hosts, Topics(fresh_name).incoming) == ["1", "1"]


def test_what_names_no_crawl_gets_one(
    hosts: list[str],
    fresh_name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All of one feed the same, random one unless it is given; the command says which."""
    table = b"url\nhttp://a.example.com/\nhttp://b.example.com/\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(table)))
    assert run(["feed", "-", "--csv"]) == 0
    (crawlid,) = set(fed(hosts, Topics(fresh_name).incoming))
    assert capsys.readouterr().out.endswith(f"Progress: ./crawlstream info {crawlid}\n")
    assert len(crawlid) == 12

    one = '{"url": "http://a.example.com/"}'
    assert run(["feed", one, "--crawlid", "mine", "--appid", "my-app", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["crawlid"] == "mine"
    assert fed(hosts, Topics(fresh_name).incoming) == [crawlid, crawlid, "mine"]


def test_a_dry_run_sends_nothing(
    hosts: list[str], fresh_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what would be taken."""
    assert run(["feed", REQUEST.format("1"), "--dry-run"]) == 0
    assert capsys.readouterr().out == "1 request would be taken; nothing was sent.\n"
    assert fed(hosts, Topics(fresh_name).incoming) == []


def test_a_table_with_a_bad_row_says_where(
    hosts: list[str], fresh_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a quotation is refused, though it could be read as a cell that holds all the rest."""
    file = tmp_path / "seeds.csv"
    file.write_text('url,appid,crawlid\nhttp://a.example/,app,1\n"http://b.example/,app,2\n')
    assert run(["feed", str(file)]) == 1
    assert "line 3: unexpected end of data" in capsys.readouterr().err
    assert fed(hosts, Topics(fresh_name).incoming) == []
