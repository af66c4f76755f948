"""A crawl is found by its id alone, and one without crawlers is shown as waiting."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from redis.asyncio import Redis

from crawlstream.boot.settings import load_settings
from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat
from crawlstream_cli.app import run
from crawlstream_cli.common.which import condition_of, which_crawl
from crawlstream_frontier.scrapes.scrape_names import ScrapeNames
from support.frontier.bench import KEYS, Bench

pytest_plugins = ["support.frontier.fixtures"]

DOCS = CrawlKey("shop", "myapp", "docs")


@pytest.fixture
def here(redis: Redis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands of this process find the Redis of the test."""
    place = redis.connection_pool.connection_kwargs
    monkeypatch.setenv("REDIS_HOST", place["host"])
    monkeypatch.setenv("REDIS_PORT", str(place["port"]))
    monkeypatch.setenv("CRAWLSTREAM_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.usefixtures("here")
async def test_an_id_that_is_unique_needs_no_application(bench: Bench) -> None:
    """The user chooses among several; if there is none, the defaults are meant."""
    await bench.feed.seeds("a/1", crawl=DOCS)
    settings = load_settings()
    assert await which_crawl(settings, "docs", appid=None, spider=None) == DOCS
    unknown = await which_crawl(settings, "other", appid=None, spider=None)
    assert unknown == CrawlKey("link", "crawlstream", "other")

    await bench.feed.seeds("a/1", crawl=CrawlKey("link", "another", "docs"))
    with pytest.raises(CrawlstreamError, match="--appid another --spider link, --appid myapp"):
        await which_crawl(settings, "docs", appid=None, spider=None)
    assert await which_crawl(settings, "docs", appid="myapp", spider=None) == DOCS


async def test_without_redis_the_defaults_are_meant() -> None:
    """A client that reaches Kafka alone can still ask."""
    nowhere = load_settings(redis_port=1)
    key = await which_crawl(nowhere, "docs", appid="myapp", spider=None)
    assert key == CrawlKey("link", "myapp", "docs")


@pytest.mark.usefixtures("here")
async def test_a_crawl_that_lacks_a_crawler_is_shown_as_waiting(
    bench: Bench, redis: Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shows a crawl as waiting until a crawler of its spider runs; others do not count."""
    await bench.feed.seeds("a/1", crawl=DOCS)
    await Heartbeat(redis, KEYS, Process(kind="crawler", spider="link")).beat()
    assert await asyncio.to_thread(run, ["crawls"]) == 0
    assert "waiting: no crawler of shop" in capsys.readouterr().out
    assert await asyncio.to_thread(run, ["crawls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["state"] == "running"

    await Heartbeat(redis, KEYS, Process(kind="crawler", spider="shop")).beat()
    assert await asyncio.to_thread(run, ["crawls"]) == 0
    assert "waiting" not in capsys.readouterr().out.splitlines()[1]


@pytest.mark.usefixtures("here")
async def test_crawls_of_scrapes_are_listed_if_they_are_asked_for(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--kind scrape`` lists them alone; a crawl of a client may have a similar name."""

    async def listed(*options: str) -> set[str]:
        assert await asyncio.to_thread(run, ["crawls", "--json", *options]) == 0
        return {one["crawlid"] for one in json.loads(capsys.readouterr().out)}

    of_scrapes = ScrapeNames().new(60).crawlid
    for name in (of_scrapes, "scrape-of-mine", "docs"):
        await bench.feed.seeds("a/1", crawl=CrawlKey("link", "scrape", name))
    assert await listed() == {"scrape-of-mine", "docs"}
    assert await listed("--kind", "scrape") == {of_scrapes}
    assert await asyncio.to_thread(run, ["crawls", "--kind", "page"]) == 2


@pytest.mark.usefixtures("here")
async def test_a_crawl_that_lacks_a_browser_is_shown_as_waiting(
    bench: Bench, redis: Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    """A crawler of its spider is of no use to it, one with a browser is enough.

    While pages that need none wait as well, and a crawler for them lives, it is running.
    """

    async def shown(*command: str) -> str:
        assert await asyncio.to_thread(run, list(command)) == 0
        return capsys.readouterr().out

    await bench.feed.seeds("a/1", "b/1", crawl=DOCS, render={})
    plain = Heartbeat(redis, KEYS, Process(kind="crawler", spider="shop"))
    await plain.beat()
    assert "waiting: no crawler of shop+render" in await shown("crawls")
    assert json.loads(await shown("crawls", "--json"))[0]["lanes"] == ["shop+render"]
    told = await condition_of(load_settings(), DOCS)
    assert told["badge"] == "waiting: no crawler of shop+render"
    assert told["waits_for"] == ["shop+render"]

    await bench.feed.seeds("c/1", crawl=DOCS)
    assert "waiting:" not in await shown("crawls")
    await plain.withdraw()
    assert "no crawler of shop or shop+render" in await shown("crawls")
    await Heartbeat(redis, KEYS, Process(kind="crawler", spider="shop+render")).beat()
    assert "waiting:" not in await shown("crawls")


@pytest.mark.usefixtures("here")
async def test_an_unknown_crawl_is_an_error(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1, and where the known ones are listed."""
    await bench.feed.seeds("a/1", crawl=DOCS)
    assert await asyncio.to_thread(run, ["frontier", "inspect", "other"]) == 1
    said = capsys.readouterr().err
    assert "unknown crawl other of application crawlstream with spider link" in said
    assert "`./crawlstream crawls` lists the known ones" in said
    assert await asyncio.to_thread(run, ["frontier", "inspect", "docs"]) == 0
    assert "run 1, running" in " ".join(capsys.readouterr().out.split())
