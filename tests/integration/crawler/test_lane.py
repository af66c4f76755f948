"""The fetch lane's laws: what a page may not do before Kafka has it, and how each of them ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.exceptions import CloseSpider

from crawling import ClusterSpider
from crawling.lane.loop_turns import LoopTurns
from crawling.lease.pending_report import End
from crawling.page.page import Page
from crawling.publish import deadlines
from crawling.spiders.link import LinkSpider
from crawlstream.bus.records import NotAcknowledged
from crawlstream.model.crawl import Profile
from crawlstream.model.effects import Requeue, Settle
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page, serving
from support.crawler.lane import LaneBench, in_the_lane
from support.crawler.leases import lease
from support.waiting import WaitUntil

KIB = 1024


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """A page with a link."""
    with serving({"/": page("/there")}) as site:
        yield site


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[LaneBench]:
    """A lane of the link spider."""
    async with in_the_lane(LinkSpider, tmp_path) as bench:
        yield bench


def told(end: End) -> tuple[str, str]:
    """Reports to the frontier of a page's end."""
    return (end.outcome.value, end.reason) if isinstance(end, Settle) else (type(end).__name__, "")


async def test_a_page_is_settled_once_kafka_has_its_result_and_not_before(
    bench: LaneBench, site: CrawlerSite, wait_until: WaitUntil
) -> None:
    """Settles a page once Kafka has its result, however long that takes, with its links."""
    bench.kafka.is_there.clear()
    started = bench.start(site.url("/"))
    await wait_until(lambda: bench.kafka.asked)
    await asyncio.sleep(0.05)
    assert started.is_open
    assert not bench.ends()
    bench.kafka.is_there.set()
    await bench.lane.finish()
    (settle,) = bench.ends()
    assert isinstance(settle, Settle)
    assert told(settle) == ("done", "2xx")
    assert sum(len(group.entries) for group in settle.links) == 1
    assert [each["url"] for each in bench.kafka.told] == [site.url("/")]


async def test_a_failure_is_settled_once_kafka_has_its_event(
    bench: LaneBench, wait_until: WaitUntil
) -> None:
    """Settles a failure once Kafka has its event, and leaves no failed page open."""
    bench.kafka.is_there.clear()
    bench.start("http://10.1.2.3/")
    await wait_until(lambda: bench.kafka.asked)
    await asyncio.sleep(0.05)
    assert not bench.ends()
    bench.kafka.is_there.set()
    await bench.lane.finish()
    (settle,) = bench.ends()
    assert told(settle) == ("failed", "address_refused")


GZIP = {"Content-Encoding": "gzip"}
AGAIN = ("Requeue", "")
FATES = {
    "/503": (AGAIN, ("done", "5xx")),
    "/cut": (AGAIN, ("failed", "connection_lost")),
    "/gone": (("done", "4xx"), ("done", "4xx")),
    "/moved": (("redirected", ""), ("redirected", "")),
    "/bomb": (("failed", "bad_encoding"), ("failed", "bad_encoding")),
    "/moved-unread": (("redirected", ""), ("redirected", "")),
    "/nowhere-unread": (("failed", "bad_encoding"), ("failed", "bad_encoding")),
    "/503-unread": (AGAIN, ("failed", "bad_encoding")),
}
"""By path, what becomes of a page at its first attempt and at its last."""


@pytest.mark.parametrize("path", FATES)
async def test_a_page_has_its_attempts_and_no_more(
    bench: LaneBench, site: CrawlerSite, path: str
) -> None:
    """Passing failures are retried; others are reported, and no URL is requested twice at once."""
    site.pages |= {
        "/503": Answer(b"sorry", status=503),
        "/cut": Answer(raw=b""),
        "/gone": Answer(status=404),
        "/moved": Answer(status=301, headers={"Location": "/"}),
        "/bomb": Answer(b"plain", headers=GZIP),
        "/moved-unread": Answer(b"plain", status=301, headers={**GZIP, "Location": "/"}),
        "/nowhere-unread": Answer(b"plain", status=302, headers=GZIP),
        "/503-unread": Answer(b"plain", status=503, headers=GZIP),
    }
    for fate, retries in zip(FATES[path], (0, 99), strict=True):
        await bench.end_of(site.url(path), retries=retries)
        assert list(map(told, bench.ends())) == [fate]
    assert site.paths() == [path] * 2


async def test_further_attempts_are_of_the_engine(bench: LaneBench) -> None:
    """Whose client takes servers that libcurl refuses; but for those of a pool of proxies."""
    first, second, proxied = (
        Page(lease(retries=retries, profile=Profile(proxy=proxy)), "id")
        for retries, proxy in ((0, None), (1, None), (1, "de"))
    )
    assert bench.way.lane_for(first) is bench.lane
    assert bench.way.lane_for(second) is None
    assert bench.way.lane_for(proxied) is bench.lane


class Raising(ClusterSpider):
    """Raises the given error, after a link and an item."""

    name = "raising"
    raises: Callable[[], Any]

    def parse(self, response: Any) -> Iterator[Any]:
        """Yield an item and a link."""
        yield response.follow("/there")
        yield self.result(response)
        type(self).raises()


def _raise(error: Exception) -> Callable[[], Any]:
    def raising() -> None:
        raise error

    return raising


@pytest.mark.parametrize("raises", [_raise(ValueError("x")), _raise(CloseSpider()), sys.exit])
async def test_a_spider_ends_its_page_whatever_it_raises_and_not_its_process(
    site: CrawlerSite, tmp_path: Path, raises: Callable[[], Any]
) -> None:
    """It fails with a reason, and keeps its earlier findings."""
    Raising.raises = staticmethod(raises)
    async with in_the_lane(Raising, tmp_path) as bench:
        await bench.end_of(site.url("/"))
        (settle,) = bench.ends()
    assert isinstance(settle, Settle)
    assert told(settle) == ("failed", "spider_error")
    assert sum(len(group.entries) for group in settle.links) == 1
    assert [each.get("event", "result") for each in bench.kafka.told] == ["result", "page_failed"]


class Looking(ClusterSpider):
    """Looks what the flight recorder says while it runs."""

    name = "looking"
    look: Callable[[], bytes]
    seen: bytes = b""

    def parse(self, response: Any) -> Iterator[Any]:
        """An item, and another that has to wait until Kafka has the first."""
        yield self.result(response)
        type(self).seen = type(self).look()
        yield None


async def test_the_recorder_names_the_page_whose_spider_runs_and_none_that_waits(
    site: CrawlerSite, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """A death on the spider's account is blamed on its page, one while Kafka is away on none."""
    async with in_the_lane(Looking, tmp_path) as bench:
        path = tmp_path / "recorder" / "looking.0"
        Looking.look = staticmethod(path.read_bytes)
        nobody = path.read_bytes()
        bench.kafka.is_there.clear()
        noted = bench.start(site.url("/"))
        await wait_until(lambda: bench.kafka.asked)
        assert path.read_bytes()[512:514] == nobody[512:514] == bytes(2)
        bench.kafka.is_there.set()
        await bench.lane.finish()
        length = f"{noted.token} {noted.lease.partition}".encode()
        assert Looking.seen[512:].startswith(len(length).to_bytes(2, "big") + length)
        assert path.read_bytes()[512:514] == bytes(2)


async def test_a_full_lane_leases_nothing_and_holds_up_no_page_that_is_in_it(
    bench: LaneBench, site: CrawlerSite, wait_until: WaitUntil
) -> None:
    """Kafka away, bodies past the limit: what was leased before is fetched, parsed, published."""
    paths = [f"/{number}" for number in range(24)]
    site.pages |= dict.fromkeys(paths, Answer(b"word " * 4 * KIB))
    bench.lane._most_size = 64 * KIB
    has_room = [bench.way.has_room]
    bench.kafka.is_there.clear()
    for path in paths[:12]:
        bench.start(site.url(path))
    await wait_until(lambda: len(bench.kafka.asked) == 12, timeout_s=10)
    has_room.append(bench.way.has_room)
    for path in paths[12:]:
        bench.start(site.url(path))
    await wait_until(lambda: len(bench.kafka.asked) == len(paths), timeout_s=10)
    assert sorted(site.paths()) == sorted(paths)
    bench.kafka.is_there.set()
    await bench.lane.finish()
    assert [*has_room, bench.way.has_room] == [True, False, True]
    assert [told(end) for end in bench.ends()] == [("done", "2xx")] * len(paths)


async def test_a_page_that_takes_too_long_is_cancelled_and_tried_again(
    bench: LaneBench, site: CrawlerSite, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancels and retries a page that takes too long in any state."""
    site.pages["/"] = Answer(after_s=5)
    started = bench.start(site.url("/"))
    await wait_until(lambda: site.visits)
    monkeypatch.setattr(deadlines, "LONGEST_S", 0.0)
    bench.parts.deadlines.enforce()
    await bench.lane.finish()
    assert not started.is_open
    (end,) = bench.ends()
    assert isinstance(end, Requeue)


async def test_a_worker_that_gives_up_on_kafka_ends_no_page(
    bench: LaneBench, site: CrawlerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Result or failure: the page is left open, for others to fetch."""

    async def away(records: Any) -> None:
        raise NotAcknowledged("no word", records)

    monkeypatch.setattr(bench.kafka, "send", away)
    monkeypatch.setattr(bench.parts.publisher, "_gives_up_at", 0.0)
    started = [bench.start(site.url("/")), bench.start("http://10.1.2.3/")]
    await bench.lane.finish()
    await bench.tasks.finish(5)
    assert not bench.ends()
    assert all(each.is_open for each in started)


async def test_closing_waits_for_the_pages_in_the_lane(bench: LaneBench, site: CrawlerSite) -> None:
    """Fetched pages are published, and late ones as well."""
    site.pages |= {"/slow": Answer(after_s=0.3)}
    for path in ("/", "/slow"):
        bench.start(site.url(path))
    await bench.lane.finish()
    assert [told(end)[0] for end in bench.ends()] == ["done", "done"]


async def test_pages_have_the_cpu_one_in_a_round_of_the_loop() -> None:
    """First come, first served; heartbeats and departures are looked after in between."""
    loop = asyncio.get_running_loop()
    turns, rounds, taken = LoopTurns(loop), [0], []

    def count() -> None:
        rounds[0] += 1
        loop.call_soon(count)

    async def take(name: int) -> None:
        await turns.take()
        taken.append((name, rounds[0]))

    loop.call_soon(count)
    await asyncio.gather(*map(take, range(5)))
    assert [name for name, _ in taken] == list(range(5))
    assert len({when for _, when in taken}) == 5
