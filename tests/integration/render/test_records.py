"""Records of sites for automatic rendering, in a real Redis, as several processes use them."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis
from scrapy.http import HtmlResponse

from crawling.autorender.choice import RenderChoice
from crawling.autorender.families import family_of
from crawling.autorender.record import RenderRecord, RenderVerdict, unpack
from crawling.background import Tasks
from crawling.page.page import Page
from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import Entry, Profile
from crawlstream_frontier.frontier import Frontier
from support.crawler.leases import lease

KEYS = FrontierKeys()
TEXT = "Text that only a browser shows. " * 9


class _Process:
    """The part of a crawler that decides."""

    def __init__(self, redis: Redis) -> None:
        self.tasks = Tasks(lambda: None)
        self.choice = RenderChoice(lambda _partition: Frontier(redis, KEYS).sketches, self.tasks)

    async def why(self, number: int, headers: str = "") -> str | None:
        """Return why a page is rendered, by all that is stored."""
        page = _page(number, headers)
        await self.choice.read([page])
        return self.choice.why_rendered(page)

    def compare(self, number: int, *, needed: bool, headers: str = "") -> None:
        """Note a pair."""
        page, sent = _page(number, headers), f"<p>{'' if needed else TEXT}</p><script></script>"
        self.choice.compare(page, _response(page, sent), _response(page, f"<p>{TEXT}</p>"))


def _page(number: int, headers: str) -> Page:
    own = {"X-Own": headers} if headers else None
    entry = Entry(url=f"https://a.example/x/{number}")
    return Page(
        lease(number, entry=entry, profile=Profile(render={"auto": True}, headers=own)), "id"
    )


def _response(page: Page, text: str) -> HtmlResponse:
    return HtmlResponse(page.lease.entry.url, body=text.encode(), encoding="utf-8")


async def _stored(redis: Redis) -> RenderRecord:
    (raw,) = await Frontier(redis, KEYS).sketches.read(["a.example+render"])
    return unpack(raw)


@pytest.fixture
def sampled() -> tuple[int, int]:
    """Return the number of a page that is a trial, and of one that is none."""
    record, family = RenderRecord(), family_of("https://a.example/x/1")
    tried = [record.is_tried(family, f"https://a.example/x/{n}") for n in range(40)]
    return tried.index(True), tried.index(False)


async def test_processes_that_vote_at_once_make_one_record(redis: Redis) -> None:
    """Each vote counts; all processes act on the verdict from their next lease on."""
    processes = [_Process(redis) for _ in range(4)]
    for number, process in enumerate(processes):
        process.compare(number, needed=True)
    await asyncio.gather(*(process.tasks.finish(9) for process in processes))
    record = await _stored(redis)
    assert record.verdict(family_of("https://a.example/x/1")) is RenderVerdict.BROWSER
    (family,) = record.families.values()
    assert (family.needed, family.plain) == (2, 0), "two of four have made the verdict"
    assert await _Process(redis).why(1) == "family"
    await asyncio.sleep(0.3)
    assert await processes[0].why(2) == "family"


async def test_the_first_page_of_an_unknown_site_is_rendered(
    redis: Redis, sampled: tuple[int, int]
) -> None:
    """Once in a process; where a record is stored, only the pages are that it says."""
    first, (trial, other) = _Process(redis), sampled
    assert [await first.why(other), await first.why(other), await first.why(trial)] == [
        "trial",
        None,
        "trial",
    ]
    first.compare(other, needed=False)
    await first.tasks.finish(9)
    assert await _Process(redis).why(other) is None


async def test_crawls_with_headers_of_their_own_do_not_vote(redis: Redis) -> None:
    """Their site may show them something else; they use what is known."""
    process = _Process(redis)
    process.compare(1, needed=True, headers="own")
    await process.tasks.finish(9)
    assert not (await _stored(redis)).families
    for number in (1, 2):
        process.compare(number, needed=True)
    await process.tasks.finish(9)
    assert await _Process(redis).why(3, headers="own") == "family"


async def test_without_redis_pages_are_fetched_as_if_nothing_was_known(
    sampled: tuple[int, int], unused_tcp_port: int
) -> None:
    """Decisions need no reply: the trials of open families, and votes that are lost."""
    async with Redis(port=unused_tcp_port) as nowhere:
        process, (trial, other) = _Process(nowhere), sampled
        assert [await process.why(trial), await process.why(other)] == ["trial", None]
        process.compare(other, needed=True)
        await process.tasks.finish(9)
        assert await process.why(other) == "family"
