"""The requisites of a page are requested a few at a time, and published together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from scrapy.http import Response, TextResponse

from crawling.page.page import Page
from crawling.publish.publisher import GivenUp
from crawling.render.judge import Judge, Rests
from crawling.requisites.found import IMAGE, STYLESHEET, Requisite
from crawling.requisites.known import KnownRequisites
from crawling.requisites.loading import AT_ONCE, Fetched, Loading
from crawlstream.model.egress.render import TYPES
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from support.crawler.leases import lease

SITE = "http://a.example/"
STYLE = f"{SITE}s.css"
IMAGES = [Requisite(IMAGE, f"{SITE}{number}.png") for number in range(1, 13)]


class Client:
    """Answers requests, and takes what is to be published, when a test lets it."""

    def __init__(self) -> None:
        self.answers, self.takes = asyncio.Event(), asyncio.Event()
        self.at_once = self.most_at_once = 0
        self.published: list[list[str]] = []
        self.lent: set[str] = set()
        self.error: Exception | None = None

    async def fetch(self, url: str, **_: Any) -> Fetched:
        """Answer with a stylesheet that names an image, or an image."""
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            await self.answers.wait()
        finally:
            self.at_once -= 1
        self.lent.add(url)
        if url == STYLE:
            return Fetched(TextResponse(url, body=b"b{background:url(more.png)}"), page())
        return Fetched(Response(url, body=b"png"), page())

    async def publish(self, some: Sequence[Fetched]) -> Sequence[Exception | None]:
        """Publish together."""
        self.published.append([each.response.url for each in some])
        await self.takes.wait()
        if self.error:
            raise self.error
        return [None] * len(some)

    def let_go(self, some: Iterable[Fetched]) -> None:
        """Forget."""
        self.lent -= {each.response.url for each in some}


class OpenRobots:
    """Rules that allow everything, and are known."""

    def knows(self, *_: object) -> bool:
        """Return True."""
        return True

    async def learn(self, *_: object) -> bool:
        """Return True."""
        return True


def page() -> Page:
    """Return an open page."""
    return Page(lease(), "id")


async def allowed(_url: str) -> bool:
    """Allow everything."""
    return True


def loading(client: Client, known: KnownRequisites) -> Loading:
    """Return the requisites of a page."""
    rule = ThrottleRule(hits=10, window_s=1, render=30)
    judge = Judge(
        origin="http://a.example:80",
        site="a.example",
        table=ThrottleTable(default=rule),
        types=frozenset(TYPES),
        most=60,
        robots=allowed,
        rests=Rests(),
        may_send=lambda: True,
        is_strict=True,
    )
    return Loading(
        page=page(),
        judge=judge,
        robots=OpenRobots(),
        known=known,
        client=client,
        reading=lambda read: read(),
        most_bytes=1 << 20,
        timeout_s=60,
    )


async def turns() -> None:
    """Let all tasks go on until they wait."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_responses_are_published_together() -> None:
    """Four requests are sent at once, and those that a stylesheet names, too."""
    client = Client()
    running = asyncio.ensure_future(
        loading(client, KnownRequisites()).run([Requisite(STYLESHEET, STYLE), *IMAGES])
    )
    await turns()
    assert client.most_at_once == AT_ONCE
    client.answers.set()
    await turns()
    client.takes.set()
    account = await running
    urls = [url for some in client.published for url in some]
    assert sorted(urls) == sorted([STYLE, f"{SITE}more.png", *(one.url for one in IMAGES)])
    assert (account["came"], account["missing"]) == (14, [])
    assert len(client.published) <= 2
    assert client.lent == set()


@pytest.mark.parametrize("ends", ["cancelled", "given_up"])
async def test_requisites_of_a_page_that_ends_early_are_requested_again(ends: str) -> None:
    """The next page requests what was in flight, or not yet published."""
    client, known = Client(), KnownRequisites()
    late = loading(client, known)
    running = asyncio.ensure_future(late.run(IMAGES))
    client.answers.set()
    await turns()
    client.answers.clear()
    if ends == "given_up":
        client.error = GivenUp("Kafka is away")
        client.takes.set()
    else:
        running.cancel()
    with pytest.raises((asyncio.CancelledError, GivenUp)):
        await running
    run = (late.page.lease.crawl, late.page.lease.run)
    assert client.published
    assert all(known.add(run, one.url) for one in IMAGES)
    assert client.lent == set()
