"""A user's code through Scrapy's engine: what it asks of its request, and how it may end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from scrapy.http import Response

from crawling import ClusterSpider
from crawling.testing import CrawledPage, Outlink, crawl_page


class Ours(BaseException):
    """An error that no ``except Exception`` catches."""


ENDS = {
    "exit": (SystemExit(3), "the spider called exit(3)"),
    "interrupt": (KeyboardInterrupt(), "the spider raised KeyboardInterrupt"),
    "cancel": (asyncio.CancelledError(), "the spider raised CancelledError"),
    "leave": (GeneratorExit(), "the spider raised GeneratorExit"),
    "ours": (Ours("mine"), "the spider raised Ours: mine"),
}


class Careless(ClusterSpider):
    """A spider that ends as its page is called, or yields copies of its request."""

    name = "careless"

    def parse(self, response: Response) -> Any:
        """End before anything is yielded, in a plain function."""
        raise ENDS[response.url.rpartition("/")[2]][0]

    def later(self, response: Response) -> Iterator[Any]:
        """End after a result."""
        yield self.result(response)
        self.parse(response)

    async def awaits(self, response: Response) -> None:
        """End in a coroutine."""
        self.parse(response)

    async def yields(self, response: Response) -> AsyncIterator[Any]:
        """End in an asynchronous generator, after it has waited."""
        await asyncio.sleep(0)
        yield self.result(response)
        self.parse(response)

    def result_only(self, response: Response) -> Iterator[Any]:
        """Yield a result."""
        yield self.result(response)

    def copies(self, response: Response) -> Iterator[Any]:
        """Request the next pages as this one was requested."""
        assert response.request is not None
        yield response.request.replace(url="http://a.example/2")
        yield response.follow("/3", response.request.callback)

    async def awaits_copies(self, response: Response) -> list[Any]:
        """Do so in a coroutine."""
        return list(self.copies(response))

    async def yields_copies(self, response: Response) -> AsyncIterator[Any]:
        """Do so in an asynchronous generator."""
        for each in self.copies(response):
            yield each


class Copying(Careless):
    """A spider whose default callback copies requests."""

    name = "copying"
    parse = Careless.copies


class EndingPipeline:
    """A pipeline of a user's that ends as its page is called."""

    def process_item(self, item: Any) -> Any:
        """End."""
        raise ENDS[item.url.rpartition("/")[2]][0]


def crawled(callback: str | None, path: str = "1", **how: Any) -> CrawledPage:
    """Return what has become of a page that a callback has parsed."""
    page = Outlink(f"http://a.example/{path}", callback)
    return crawl_page(how.pop("spider", Careless), page, request={"maxdepth": 3}, **how)


@pytest.mark.parametrize("callback", ["copies", "awaits_copies", "yields_copies"])
def test_a_callback_finds_its_request_as_it_was_made(callback: str) -> None:
    """May copy it, and name its callback: the next pages are parsed by the same method."""
    found = crawled(callback)
    assert found.failure is None
    assert [(each.url, each.callback) for each in found.outlinks] == [
        ("http://a.example/2", callback),
        ("http://a.example/3", callback),
    ]


def test_a_copy_of_a_request_without_a_callback_has_none() -> None:
    """Is parsed by ``parse``, as the request was."""
    found = crawled(None, spider=Copying)
    assert [each.callback for each in found.outlinks] == [None, None]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("callback", ["parse", "later", "awaits", "yields"])
def test_whatever_a_callback_raises_fails_its_page(callback: str, end: str) -> None:
    """Ends neither the process nor the task that would have ended the page."""
    failure = crawled(callback, end).failure
    assert failure is not None
    assert (failure["reason"], failure["detail"]) == (
        "spider_error",
        f"RuntimeError: {ENDS[end][1]}",
    )


@pytest.mark.parametrize("end", ENDS)
def test_whatever_a_pipeline_raises_fails_its_page(end: str) -> None:
    """Ends neither the process nor the task that would have ended the page."""
    failure = crawled(
        "result_only", end, settings={"ITEM_PIPELINES": {EndingPipeline: 100}}
    ).failure
    assert failure is not None
    assert (failure["reason"], failure["detail"]) == ("item_error", f"RuntimeError: {ENDS[end][1]}")
