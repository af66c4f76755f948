"""Charges of runs that have ended, on a real Kafka: for ``cost``, and by run."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.topics import ensure_topics
from crawlstream.keys import Topics
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import CrawlEvent
from crawlstream.wire import events
from crawlstream_cli.app import run
from rest_service.runs.charges import RunCharges, read_charges

pytest_plugins = ["support.bus.fixtures"]

KEY = CrawlKey("link", "shop", "spring")
CENT = 10_000


def ending(number: int, done: int, charged: dict[str, int]) -> bytes:
    """The ending of a run whose pages cost money, or nothing."""
    now = int(time.time())
    return events.encode(
        CrawlEvent(
            event="crawl_finished",
            crawl=KEY,
            run=number,
            server_time=now,
            started_at=now - 60,
            counters={"admitted": done, "done": done},
            reasons={"charged": charged},
        )
    )


@pytest.fixture
async def topic(hosts: list[str], fresh_name: str) -> str:
    """Three runs; the ending of one comes twice."""
    topics = Topics(fresh_name)
    await ensure_topics(Kafka(hosts), topics)
    started = CrawlEvent(event="crawl_started", crawl=KEY, run=4, server_time=int(time.time()))
    paid = ending(1, 30, {"USD": 20 * CENT, "EUR": CENT})
    values = [paid, ending(2, 10, {}), paid, ending(3, 60, {"USD": 30 * CENT})]
    async with KafkaSink(Kafka(hosts)) as sink:
        for value in (b"no event", events.encode(started), *values):
            await sink.send([Out(topics.events, value, b"key")])
    return topics.events


async def test_each_run_that_ended_in_the_period_counts_once(hosts: list[str], topic: str) -> None:
    """Counts each run that ended in the period once, unpaid ones too, and no open run."""
    kafka, now_ms = Kafka(hosts), int(time.time() * 1000)
    found = await read_charges(kafka, topic, now_ms - 3_600_000)
    assert found == RunCharges(100, {"USD": 50 * CENT, "EUR": CENT})
    assert found.per_million_pages() == {"EUR": 100, "USD": 5_000}
    assert await read_charges(kafka, topic, now_ms + 3_600_000) == RunCharges(0, {})


async def test_runs_shows_what_each_run_has_paid(
    hosts: list[str],
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Shows what each run has paid: currencies for people, millionths for programs."""
    monkeypatch.setenv("KAFKA_HOSTS", hosts[0])
    monkeypatch.setenv("KAFKA_TOPIC_PREFIX", topic.partition(".")[0])
    command = ["runs", KEY.crawlid, "--appid", "shop", "--spider", "link"]
    assert await _status(command) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[-1] == "charged"
    assert [line.rstrip().endswith("USD 0.20, EUR 0.01") for line in lines] == [
        *(False, False, False, True)
    ]
    assert await _status([*command, "--json"]) == 0
    *_, first = json.loads(capsys.readouterr().out)["runs"]
    assert first["reasons"]["charged"] == {"USD": 20 * CENT, "EUR": CENT}


async def _status(command: list[str]) -> int:
    return await asyncio.to_thread(run, command)
