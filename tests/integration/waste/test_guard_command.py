"""``frontier guard`` and ``frontier inspect``: the sketch of a domain, as JSON and in words."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from redis.asyncio import Redis

from crawling.waste.sketches import SiteVotes, count
from crawlstream_cli.app import run
from crawlstream_frontier.waste.votes import PageVote, SitePlace
from support.frontier.bench import Bench

pytest_plugins = ["support.frontier.fixtures"]


@pytest.fixture
def here(redis: Redis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands of this process find the Redis of the test."""
    place = redis.connection_pool.connection_kwargs
    monkeypatch.setenv("REDIS_HOST", place["host"])
    monkeypatch.setenv("REDIS_PORT", str(place["port"]))
    monkeypatch.setenv("CRAWLSTREAM_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")


async def _vote(bench: Bench, name: str) -> None:
    votes = [PageVote(place=SitePlace(1, (name,)), text=7) for _ in range(20)]
    await count(bench.frontier.sketches, [SiteVotes("a.example", votes, None)])


@pytest.mark.usefixtures("here")
async def test_a_domain_is_shown_with_its_families(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words for people, JSON for programs; names of parameters cannot control a terminal."""
    await _vote(bench, "?\x1b[31msort")
    assert await asyncio.to_thread(run, ["frontier", "inspect", "a.example"]) == 0
    shown = capsys.readouterr().out
    assert "20 pages compared, 1 families with a verdict" in shown
    assert "?%1B%5B31msort last:" in shown
    assert await asyncio.to_thread(run, ["frontier", "guard", "a.example"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["site"], report["pages"]) == ("a.example", 20)
    assert report["families"][0]["verdict"] == "last"
    assert await asyncio.to_thread(run, ["frontier", "inspect", "a.example", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["guard"] == report


@pytest.mark.usefixtures("here")
async def test_an_unknown_domain_has_no_families(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing has been compared there."""
    await _vote(bench, "?sort")
    assert await asyncio.to_thread(run, ["frontier", "guard", "b.example"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == {"site": "b.example", "pages": 0, "changed": 0, "families": []}
    assert await asyncio.to_thread(run, ["frontier", "inspect", "b.example"]) == 0
    assert "no pages have been compared" in capsys.readouterr().out
