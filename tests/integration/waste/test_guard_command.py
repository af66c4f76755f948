"""``frontier guard`` and ``frontier inspect``: the sketch of a domain, as JSON and in words."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
from redis.asyncio import Redis

from crawling.waste.sketches import SiteVotes, count
from crawlstream_cli.app import run
from crawlstream_frontier.waste.families import family_hash
from crawlstream_frontier.waste.persons import PersonVerdict, by_site
from crawlstream_frontier.waste.votes import PageVote, SitePlace
from support.frontier.bench import KEYS, Bench

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
    """Shows no families for a domain without compared pages."""
    await _vote(bench, "?sort")
    assert await asyncio.to_thread(run, ["frontier", "guard", "b.example"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == {"site": "b.example", "pages": 0, "changed": 0, "families": [], "persons": []}
    assert await asyncio.to_thread(run, ["frontier", "inspect", "b.example"]) == 0
    assert "no pages have been compared" in capsys.readouterr().out


@pytest.mark.usefixtures("here")
async def test_verdicts_of_persons_are_kept_with_author_and_time(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are shown next to those that are learned, and stay until they are taken back."""
    await _vote(bench, "?\x1b[31msort")
    command = ["frontier", "guard", "a.example"]
    wanted = ["--allow", "?%1B%5B31msort", "--refuse", "/calendar/#/#", "--author", "anna"]
    assert await asyncio.to_thread(run, [*command, *wanted]) == 0
    told = json.loads(capsys.readouterr().out)["persons"]
    assert [(each["family"], each["verdict"], each["author"]) for each in told] == [
        ("/calendar/#/#", "refuse", "anna"),
        ("?%1B%5B31msort", "allow", "anna"),
    ]
    assert all(abs(each["at"] - time.time()) < 60 for each in told)
    stored = await bench.frontier.person_verdicts.all()
    assert {each.key for each in stored} == {
        family_hash("?\x1b[31msort"),
        family_hash("/calendar/#/#"),
    }
    assert await bench.redis.ttl(f"{KEYS.tag}guarded") == -1
    assert await asyncio.to_thread(run, ["frontier", "inspect", "a.example"]) == 0
    assert "/calendar/#/# refuse: anna, " in capsys.readouterr().out
    assert await asyncio.to_thread(run, [*command, "--forget", "/calendar/#/#"]) == 0
    assert len(json.loads(capsys.readouterr().out)["persons"]) == 1
    for wrong in (["--forget", "/calendar/#/#"], ["--allow", "calendar"]):
        assert await asyncio.to_thread(run, [*command, *wrong]) == 2


async def test_persons_decide_about_64_families_of_a_site(bench: Bench) -> None:
    """A reader with the latest version gets nothing more."""
    store = bench.frontier.person_verdicts
    verdicts = [PersonVerdict("a.example", f"?p{n}", n, "refuse", "anna") for n in range(65)]
    answers = [await store.put(each) for each in verdicts]
    assert answers == ["ok"] * 64 + ["too_many"]
    assert await store.put(verdicts[0]._replace(verdict="allow")) == "ok"
    assert await store.put(verdicts[64]._replace(site="example")) == "ok"
    version, found = await store.since("")
    assert len(found) == 65
    assert by_site(found)["a.example"][0] == "allow"
    assert await store.since(version) == (version, [])
    assert await store.forget("example", "?p64") == "ok"
    assert len((await store.since(version))[1]) == 64
