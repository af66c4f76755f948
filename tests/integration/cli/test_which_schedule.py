"""A schedule is found by its name alone."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from crawlstream.model.recurring.schedule import Schedule
from crawlstream_cli.app import run
from support.frontier.bench import Bench

pytest_plugins = ["support.frontier.fixtures"]

NIGHTLY = Schedule(
    appid="shop",
    name="nightly",
    cron="30 2 * * *",
    zone="Europe/Berlin",
    crawl={"crawlid": "crawl"},
    seeds=[{"url": "http://a.com/"}],
)


@pytest.fixture(autouse=True)
def here(redis: Redis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands of this process find the Redis of the test."""
    place = redis.connection_pool.connection_kwargs
    monkeypatch.setenv("REDIS_HOST", place["host"])
    monkeypatch.setenv("REDIS_PORT", str(place["port"]))
    monkeypatch.setenv("CRAWLSTREAM_HOME", str(tmp_path))


async def test_a_name_that_is_unique_needs_no_application(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands list the applications if there are several, and say so if there is none."""
    await bench.feed.put(bench.feed.schedule("set", NIGHTLY))
    assert await asyncio.to_thread(run, ["schedule", "show", "nightly"]) == 0
    assert json.loads(capsys.readouterr().out)["appid"] == "shop"

    await bench.feed.put(bench.feed.schedule("set", replace(NIGHTLY, appid="news")))
    assert await asyncio.to_thread(run, ["schedule", "next", "nightly"]) == 1
    sentence = "several schedules are called nightly; choose one: --appid news, --appid shop"
    assert sentence in capsys.readouterr().err
    assert await asyncio.to_thread(run, ["schedule", "show", "nightly", "--appid", "news"]) == 0
    assert json.loads(capsys.readouterr().out)["appid"] == "news"

    assert await asyncio.to_thread(run, ["schedule", "pause", "hourly"]) == 1
    assert "no schedule hourly found" in capsys.readouterr().err
    assert await asyncio.to_thread(run, ["schedule", "show", "nightly", "--appid", "x"]) == 1
    assert "no schedule nightly of application x found" in capsys.readouterr().err
