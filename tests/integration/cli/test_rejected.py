"""A person's hand on what took no effect: seen, understood, fed again."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out, Record
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.tail import read_topic
from crawlstream.bus.topics import ensure_topics
from crawlstream.keys import Topics
from crawlstream.model.event import Rejection
from crawlstream.wire import rejects
from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.app import run

RAW = b'{"appid": "app", "crawlid": "one", "url": "file:///etc/[red]"}'
REJECTIONS = {
    "in-0-7": Rejection(reason="bad_url", errors=["$.url: [/no]"], raw=RAW),
    "in-0-8": Rejection(reason="not_json", errors=["$: the record is not JSON"], raw=b"\xff{"),
    "in-0-9": Rejection(reason="out_of_range", errors=["$: gone"], raw=None),
}


class Cluster:
    """The topics of a cluster in which some records were rejected, one of them told twice."""

    def __init__(self, hosts: list[str], prefix: str) -> None:
        self.hosts, self.topics = hosts, Topics(prefix)
        asyncio.run(self._fill())

    async def _fill(self) -> None:
        await ensure_topics(Kafka(self.hosts, shape=TopicShape(partitions=2)), self.topics)
        async with KafkaSink(Kafka(self.hosts)) as sink:
            for name, rejection in [*REJECTIONS.items(), ("in-0-7", REJECTIONS["in-0-7"])]:
                value = rejects.encode(rejection)
                await sink.send([Out(self.topics.rejected, value, name.encode())])
            await sink.send([Out(self.topics.rejected, b"no JSON at all")])

    def incoming(self) -> list[Record]:
        """Records that have been fed."""

        async def read() -> list[Record]:
            topic = read_topic(
                Kafka(self.hosts), self.topics.incoming, from_beginning=True, follow=False
            )
            return [record async for record in topic]

        return asyncio.run(read())


@pytest.fixture
def cluster(
    kafka_server: RunningServer,
    fresh_name: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> Cluster:
    """A cluster that the command line finds by the environment."""
    hosts = f"127.0.0.1:{kafka_server.port}"
    monkeypatch.setenv("KAFKA_HOSTS", hosts)
    monkeypatch.setenv("KAFKA_TOPIC_PREFIX", fresh_name)
    monkeypatch.setenv("CRAWLSTREAM_HOME", str(tmp_path))
    return Cluster([hosts], fresh_name)


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Runs one command line that succeeds; its output by lines."""

    def command(*arguments: str) -> list[str]:
        assert run(["rejected", *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    return command


def test_what_was_rejected_is_listed_shown_and_fed_again(
    cluster: Cluster, say: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each rejection once, by id; replay sends the same bytes, keyed by crawl, and says so."""
    listed = [json.loads(line) for line in say("list", "--json")]
    assert [item["id"] for item in listed] == ["in-0-7", "in-0-8", "in-0-9"]
    (of_url,) = [json.loads(line) for line in say("list", "--json", "--reason", "bad_url")]
    assert (of_url["reason"], of_url["size"]) == ("bad_url", len(RAW))
    (of_url,) = (line for line in say("list") if "[/no]" in line)
    assert "url: [/no]" in of_url
    assert "$." not in of_url
    assert " s ago)" in of_url
    assert json.loads(say("show", "in-0-8", "--json")[0])["text"] == "\\xff{"
    assert any("file:///etc/[red]" in line for line in say("show", "in-0-7"))

    assert run(["rejected", "replay"]) == 1
    assert run(["rejected", "show", "in-0-1"]) == 1
    assert "no rejected record has the ID in-0-1" in capsys.readouterr().err
    assert cluster.incoming() == []

    assert say("replay", "in-0-7")[0].startswith("Replayed 1 record to")
    (fed,) = cluster.incoming()
    assert (fed.value, fed.key) == (RAW, b"app:one")
    told = json.loads(say("replay", "--all", "--json")[0])
    assert (told["replayed"], told["without_bytes"]) == (2, 1)
    assert {record.value for record in cluster.incoming()} == {RAW, b"\xff{"}


def test_a_flood_of_rejections_does_not_end_the_command(cluster: Cluster) -> None:
    """The topic is walked through: what it holds in all is never in memory."""
    pages, size = 200, 1 << 20

    async def flood() -> None:
        async with KafkaSink(Kafka(cluster.hosts)) as sink:
            for number in range(pages):
                rejection = Rejection(reason="too_large", errors=["$"], raw=random.randbytes(size))
                name = f"in-1-{number}".encode()
                await sink.send([Out(cluster.topics.rejected, rejects.encode(rejection), name)])

    asyncio.run(flood())
    peaks = [_peak_of("rejected", verb, *options) for verb, *options in _WALKS]
    assert max(peaks) < pages * size


_WALKS = (("list", "--limit", "1000"), ("show", "in-1-0"), ("replay", "--reason", "too_large"))


def _peak_of(*arguments: str) -> int:
    """The most memory that a command ever had, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *arguments], capture_output=True, check=True
    )
    return int(done.stderr.split()[-1]) * 1024


_MEASURED = """
import re, sys
from pathlib import Path
from crawlstream_cli.app import run
assert run(sys.argv[1:]) == 0
# Not getrusage: that knows the peak of the process which began this one, too.
(peak,) = re.findall(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
sys.stderr.write(f"\\n{peak}")
"""
