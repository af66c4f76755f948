"""Made-up neighbours: sites are asked for URLs that nothing links to, at the expense of a page."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from crawling.quality.address_parts import host_hash
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page, serving
from crawlstream_frontier.waste.families import (
    Family,
    FamilyState,
    FamilyTable,
    YieldCounts,
    family_hash,
)
from crawlstream_frontier.waste.packing import pack, unpack
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.texts import FrequentTexts, SiteTexts
from crawlstream_frontier.worker.sketch_store import SketchWrite
from support.crawler.cluster import CrawlerCluster
from support.session.own import own_redis_server
from support.waste.shown import text_of

__all__ = ["own_redis_server"]

pytest_plugins = ["support.crawler.fixtures"]

HOST = "127.0.0.1"
ONE_BY_ONE = ThrottleRule(hits=1000, window_s=1, concurrency=1)
EMPTY, OTHER = page(text="no events"), page(text="not found")
REFUSED = Answer(status=429, headers={"Retry-After": "2"})
SILENT = Answer(EMPTY.body, after_s=4)  # More than DOWNLOAD_TIMEOUT.
AWAY = Answer(status=302, headers={"Location": "http://127.0.0.9/login"})
NUMBERS = range(3, 9)
STAMP_S = 0.001
"""The site's stamps may be so much off."""


def _sketch(state: FamilyState, *, is_confirmed: bool = False) -> bytes:
    """Return a sketch of a site with a calendar of empty days."""
    sketch = Sketch()
    sketch.main, sketch.pages = host_hash(HOST), 1000
    empty = text_of(EMPTY)
    sketch.texts = SiteTexts(FrequentTexts({empty: (99, 0)}, {empty: False}, 1))
    counts = YieldCounts(pages=60, heavy=60)
    days = Family(key=family_hash("/events/#"), counts=counts, state=state)
    days.is_confirmed = is_confirmed
    sketch.families = FamilyTable([days])
    return pack(sketch, 1)


def _neighbours(web: CrawlerSite) -> list[str]:
    return [path for path in web.paths() if len(path) > len("/events/3")]


async def _crawl(
    cluster: CrawlerCluster, sketch: bytes, neighbour: Answer, robots: bytes = b""
) -> tuple[CrawlerSite, Family]:
    """Crawl a calendar of six slow days; return the site and what is stored of its days."""
    await cluster.set_rules(ONE_BY_ONE, {})
    await cluster.frontier.sketches.replace([SketchWrite(HOST, None, sketch)])
    days = {f"/events/{n}": Answer(EMPTY.body, after_s=0.6) for n in NUMBERS}
    far = {f"/events/{n * 1000 + 7007}": neighbour for n in NUMBERS}
    first = {"/": page("/list"), "/list": Answer(page(*days).body, after_s=2.5)}
    pages = {**first, **days, **far, "/robots.txt": Answer(robots)}
    with serving(pages) as web, cluster.worker(ROBOTSTXT_OBEY="true"):
        crawl = await cluster.feed(web.url("/"), maxdepth=9, guard="on")
        state = await cluster.end_of(crawl, timeout_s=60)
    assert state.admitted == state.done + state.skipped == len(days) + 2
    assert len(cluster.results()) == state.done
    (raw,) = await cluster.frontier.sketches.read([HOST])
    return web, unpack(raw).families.of("/events/#")


async def test_a_path_is_refused_once_its_site_has_shown_a_made_up_neighbour(
    cluster: CrawlerCluster,
) -> None:
    """The crawl has no result of the neighbour, and an event lists the days that were skipped."""
    web, days = await _crawl(cluster, _sketch(FamilyState.LAST), EMPTY)
    assert len(_neighbours(web)) == 1
    assert not any("7007" in each["url"] for each in cluster.results())
    assert (days.verdict, days.is_confirmed) == ("refused", True)
    events = cluster.records(cluster.topics.events)
    skipped = [each for each in events if each["event"] == "pages_skipped"]
    assert {(each["reason"], each["family"]) for each in skipped} == {("guard_path", "/events/#")}


@pytest.mark.parametrize("neighbour", [Answer(status=404), OTHER], ids=["404", "soft 404"])
async def test_a_site_without_a_made_up_neighbour_keeps_its_pages(
    cluster: CrawlerCluster, neighbour: Answer
) -> None:
    """A page with another text than the family's is none of it, whatever its status is."""
    web, days = await _crawl(cluster, _sketch(FamilyState.LAST), neighbour)
    assert len(_neighbours(web)) == 1
    assert (days.verdict, days.missing) == ("last", 1)
    assert set(web.paths()) >= {f"/events/{n}" for n in NUMBERS}


@asynccontextmanager
async def _care(cluster: CrawlerCluster) -> AsyncIterator[set[tuple[int, int]]]:
    """Collect the strikes and silences of the site as they are counted during the block."""
    seen: set[tuple[int, int]] = set()

    async def look() -> None:
        while True:
            report = await cluster.frontier.inspector.domain(HOST)
            seen.add((report.strikes, report.silences))
            await asyncio.sleep(0.05)

    looking = asyncio.create_task(look())
    try:
        yield seen
    finally:
        looking.cancel()


@pytest.mark.parametrize(
    ("neighbour", "care", "pause_s"),
    [(REFUSED, (1, 0), 2), (SILENT, (0, 1), 3), (AWAY, (0, 0), 0)],
    ids=["429", "silence", "another site"],
)
async def test_a_neighbour_without_an_answer_says_how_the_site_is_and_nothing_of_the_family(
    cluster: CrawlerCluster, neighbour: Answer, care: tuple[int, int], pause_s: float
) -> None:
    """A refusal and a silence count for the rate like those of a page; the next one is later."""
    async with _care(cluster) as seen:
        web, days = await _crawl(cluster, _sketch(FamilyState.LAST), neighbour)
    assert max(seen) == care
    assert (days.verdict, days.missing, days.is_confirmed) == ("last", 0, False)
    (asked,) = _neighbours(web)
    assert set(web.paths()) >= {f"/events/{n}" for n in NUMBERS}
    times = [visit.at for visit in web.visits]
    number = next(n for n, visit in enumerate(web.visits) if visit.path == asked)
    assert times[number + 1] - times[number] >= pause_s - STAMP_S


async def test_a_crawl_delay_holds_for_a_neighbour(cluster: CrawlerCluster) -> None:
    """No request comes earlier than robots.txt asks for, neither it nor the page after it."""
    robots = b"User-agent: *\nCrawl-delay: 1"
    web, days = await _crawl(cluster, _sketch(FamilyState.LAST), EMPTY, robots)
    assert (len(_neighbours(web)), days.verdict) == (1, "refused")
    times = [visit.at for visit in web.visits]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) >= 1 - STAMP_S


async def test_robots_txt_is_obeyed(cluster: CrawlerCluster) -> None:
    """A made-up neighbour is not fetched where no page would be."""
    robots = b"User-agent: *\nDisallow: /events/1"
    web, days = await _crawl(cluster, _sketch(FamilyState.LAST), EMPTY, robots)
    assert _neighbours(web) == []
    assert (days.verdict, days.missing, days.is_confirmed) == ("last", 0, False)


async def test_a_crawl_tries_again_what_an_earlier_one_has_refused(
    cluster: CrawlerCluster,
) -> None:
    """It has not fetched the pages of that family itself."""
    web, days = await _crawl(cluster, _sketch(FamilyState.REFUSED, is_confirmed=True), EMPTY)
    assert set(web.paths()) >= {f"/events/{n}" for n in NUMBERS}
    assert days.verdict == "last"
