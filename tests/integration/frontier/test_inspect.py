"""Inspection: each state that a page can have, and the report on a domain."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Outcome
from crawlstream.model.inspection import PagePlace, PageReport, Sighting
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.app import run
from crawlstream_frontier.inspector import MOST_ENTRIES, Inspector
from support.frontier.bench import CRAWL, KEYS, Bench, links

pytest_plugins = ["support.frontier.fixtures"]

OTHER = replace(CRAWL, crawlid="other")


@pytest.fixture
def inspector(bench: Bench) -> Inspector:
    """A client with a question."""
    return bench.frontier.inspector


async def report(inspector: Inspector, url: str, crawl: CrawlKey = CRAWL) -> PageReport:
    """Report of a known crawl on ``<domain>/<path>``."""
    found = await inspector.page(crawl, f"http://{url}")
    assert found is not None
    return found


async def sighting(inspector: Inspector, url: str) -> Sighting:
    """The only entry of a page."""
    (found,) = (await report(inspector, url)).sightings
    return found


async def test_a_queued_page_has_a_place(bench: Bench, inspector: Inspector) -> None:
    """Its place in its band, and how much of its crawl stands before it in the domain."""
    await bench.feed.seeds("a/1", "a/2", "a/3", "b/1", priority=90)
    await bench.feed.seeds("a/4", "a/5", priority=10)
    await bench.feed.seeds("a/9", crawl=OTHER)
    found = await sighting(inspector, "a/5")
    assert (found.where, found.place, found.ahead) == (PagePlace.QUEUED, 2, 4)
    assert (found.priority, found.attempt, found.spiderid) == (10, 1, "link")
    first = await sighting(inspector, "a/1")
    assert (first.place, first.ahead) == (1, 0)


async def test_a_held_page_has_a_worker(bench: Bench, inspector: Inspector) -> None:
    """Shows the worker, the time and the attempt of a page in flight."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.advance(2_500)
    found = await sighting(inspector, "a/1")
    assert (found.where, found.worker, found.phase) == (PagePlace.HELD, "w1", "granted")
    assert found.held_ms is not None
    assert found.held_ms >= 2_500
    await bench.worker.sent(lease, received=True)
    assert (await sighting(inspector, "a/1")).phase == "received"


async def test_a_delayed_page_has_a_time(bench: Bench, inspector: Inspector) -> None:
    """How long still, and that an attempt was used."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.worker.requeue(lease, delay_ms=60_000)
    found = await sighting(inspector, "a/1")
    assert (found.where, found.attempt, found.priority) == (PagePlace.DELAYED, 2, 40)
    assert found.due_ms is not None
    assert 0 < found.due_ms <= 60_000


async def test_a_page_that_is_over_was_seen(bench: Bench, inspector: Inspector) -> None:
    """Its outcome is a count by reason; which one it was, the frontier does not know."""
    await bench.feed.seeds("a/1", "a/2", maxdepth=1)
    done, failed = await bench.worker.lease(2)
    await bench.worker.settle(done, filtered={"regex": 2})
    await bench.worker.settle(failed, outcome=Outcome.FAILED)
    for url in ("a/1", "a/2"):
        seen = await report(inspector, url)
        assert (seen.where, seen.sightings) == (PagePlace.SEEN, [])
        assert (seen.failed_by_reason, seen.filtered_by_reason) == ({"dns": 1}, {"regex": 2})


async def test_a_page_that_nobody_asked_for_was_never_there(
    bench: Bench, inspector: Inspector
) -> None:
    """Shows no such page in this crawl or domain, and nothing of an unknown crawl."""
    await bench.feed.seeds("a/1")
    await bench.feed.seeds("b/1", crawl=OTHER)
    for url in ("a/2", "b/1", "c/1"):
        assert (await report(inspector, url)).where == PagePlace.NEVER
    assert await inspector.page(replace(CRAWL, crawlid="unheard-of"), "http://a/1") is None


async def test_a_seed_fed_twice_is_there_twice(bench: Bench, inspector: Inspector) -> None:
    """Shows a seed that was fed twice by its lease, if one is in flight."""
    await bench.feed.seeds("a/1", "a/1")
    await bench.worker.lease()
    found = await report(inspector, "a/1")
    assert found.where == PagePlace.HELD
    assert [one.where for one in found.sightings] == [PagePlace.HELD, PagePlace.QUEUED]


async def test_a_link_for_another_spider_is_found(bench: Bench, inspector: Inspector) -> None:
    """Shows a link for another spider in the queue of that spider."""
    await bench.feed.seeds("a/1", maxdepth=1)
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("b", [1, 2], spiderid="an other")])
    found = await sighting(inspector, "b/2")
    assert (found.spiderid, found.place) == ("an other", 2)


async def test_where_too_much_waits_the_answer_is_unsure(
    bench: Bench, inspector: Inspector
) -> None:
    """Does not call pages over that were not looked at."""
    await bench.feed.seeds("a/seed", maxdepth=1)
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("a", range(MOST_ENTRIES + 5))])
    assert (await report(inspector, f"a/{MOST_ENTRIES + 4}")).where == PagePlace.UNSURE
    assert (await report(inspector, "a/seed")).where == PagePlace.UNSURE
    assert (await report(inspector, "a/0")).where == PagePlace.QUEUED
    assert (await report(inspector, "a/nowhere")).where == PagePlace.NEVER


async def test_a_stopped_crawl_knows_no_page(bench: Bench, inspector: Inspector) -> None:
    """Queued pages are gone with the run; the state says why."""
    await bench.feed.seeds("a/1", "a/2")
    (_held,) = await bench.worker.lease()
    await bench.feed.say("stop")
    assert (await report(inspector, "a/2")).sightings == []
    assert (await report(inspector, "a/1")).where == PagePlace.HELD
    assert (await report(inspector, "a/1")).state == "stopping"


async def test_a_domain_tells_its_rule_and_who_waits(bench: Bench, inspector: Inspector) -> None:
    """Ready, waiting or parked, with the bands in their order."""
    await bench.rule(rules={"a": ThrottleRule(hits=2, window_s=60)}, blacklist=["b"])
    await bench.feed.seeds("a/1", "a/2", "b/1", priority=50)
    await bench.feed.seeds("a/3", crawl=OTHER, priority=10)
    found = await inspector.domain("a")
    assert found.rule == ThrottleRule(hits=2, window_s=60)
    (queue,) = found.queues
    assert (queue.spiderid, queue.place, queue.bands) == ("link", "ready", 2)
    assert [(band.crawl, band.standing, band.queued) for band in queue.first] == [
        (CRAWL, 50, 2),
        (OTHER, 10, 1),
    ]
    await bench.worker.lease(10)
    found = await inspector.domain("a")
    assert (found.unreported, found.under_way, found.queues[0].place) == (1, 1, "waiting")
    assert found.next_ms > 0
    blocked = await inspector.domain("b")
    assert blocked.rule is not None
    assert (blocked.rule.hits, blocked.queues[0].place) == (0, "parked")
    assert (await inspector.domain("nowhere")).queues == []


async def test_looking_changes_nothing(bench: Bench, inspector: Inspector) -> None:
    """Every key is as it was, but for the clock."""
    await bench.feed.seeds("a/1", "a/2", maxdepth=1)
    await bench.worker.lease()

    async def everything() -> dict[bytes, bytes]:
        keys = [key for key in await bench.redis.keys() if key != KEYS.meta().encode()]
        return {key: await bench.redis.dump(key) for key in keys}

    before = await everything()
    await inspector.page(CRAWL, "http://a/1")
    await inspector.domain("a")
    assert await everything() == before


# The command.


@pytest.fixture
def environment(
    redis_server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command finds this Redis, and no cluster in its home."""
    monkeypatch.setenv("CRAWLSTREAM_HOME", str(tmp_path))
    monkeypatch.setenv("REDIS_HOST", "127.0.0.1")
    monkeypatch.setenv("REDIS_PORT", str(redis_server.port))


@pytest.mark.usefixtures("environment")
async def test_a_person_asks(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """About a page in any crawl, a domain, a crawl; as text and as JSON."""
    await bench.feed.seeds("a.example/1", "a.example/2")
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease)

    async def say(*words: str) -> str:
        whose = ("--appid", CRAWL.appid) if "--app" in words else ()
        words = tuple(word for word in words if word != "--app")
        assert await asyncio.to_thread(run, ["frontier", "inspect", *words, *whose]) == 0
        return capsys.readouterr().out

    page = await say("http://A.example:80/2#top")
    assert "crawl, run 1, running: queued" in page
    assert "position 1 in its queue" in page
    assert "a.example: 1000000 per 1 s" in page
    assert "next request in" in page
    assert page.startswith("address http://a.example/2#top\nidentity http://a.example/2 (")
    await bench.feed.seeds("a.example/q?b=2&a=1")
    page = await say("A.example/q?a=1&b=2")
    assert "address http://a.example/q?a=1&b=2\n" in page
    assert "asked for in another spelling: http://a.example/q?b=2&a=1" in page
    page = await say("a.example/q?b=2&a=1", "--json")
    assert json.loads(page)["identity"] == "http://a.example/q?a=1&b=2"
    assert "identity http://a.example/q?a=1&b=2 (" in await say("a.example/q?b=2&a=1")
    told = json.loads(await say("a.example/1", "--json"))
    assert [one["where"] for one in told["crawls"]] == ["seen"]
    assert told["crawls"][0]["summary"].startswith("seen, no longer queued")
    assert (told["url"], told["domain"]["domain"]) == ("http://a.example/1", "a.example")
    assert "No known crawl has admitted" in await say("http://a.example/3")
    assert "never admitted" in await say("http://a.example/3", "--crawlid", "crawl", "--app")
    assert "at a time" in await say("www.a.example", "--as", "domain")
    assert json.loads(await say("a.example", "--json"))["queues"][0]["bands"] == 1
    assert "2 queued, 0 delayed, 0 in flight" in await say("crawl", "--app")
    assert json.loads(await say("crawl", "--app", "--json"))["done"] == 1


@pytest.mark.usefixtures("environment")
async def test_a_part_of_a_domain_is_looked_at_for_itself(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """A host that a rule has parted from its domain is shown, as by `throttle show`."""
    slow = ThrottleRule(hits=1, window_s=99)
    await bench.rule(ThrottleRule(hits=5, window_s=1), {"shop.example.com": slow})
    for host in ("shop.example.com", "www.example.com"):
        assert await asyncio.to_thread(run, ["frontier", "inspect", host, "--json"]) == 0
    shop, rest = map(json.loads, capsys.readouterr().out.splitlines())
    assert (shop["domain"], shop["window_s"]) == ("shop.example.com", 99)
    assert (rest["domain"], rest["window_s"]) == ("example.com", 1)


@pytest.mark.usefixtures("environment")
async def test_what_cannot_be_found_is_a_sentence(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown crawl, and text that is not a URL."""
    del bench
    for words in (["nothing"], ["http://a/", "--crawlid", "nothing"]):
        assert await asyncio.to_thread(run, ["frontier", "inspect", *words]) == 1
        assert "crawlstream crawls" in capsys.readouterr().err
    assert await asyncio.to_thread(run, ["frontier", "inspect", "ftp://a/"]) == 1
    assert capsys.readouterr().err.startswith("crawlstream: ")
