"""The short way of a page: one task from its request to its end.

Scrapy's engine, downloader and scraper make some seven tasks, a dozen Deferreds and as many
signals of a page, for the sake of listeners. Without listeners, a page needs only these steps: the
request's defaults, the download, decompression, the verdict, the spider, Kafka. Both ways share
the code of each step.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import structlog
from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider, DropItem
from scrapy.http import Response
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.misc import arg_to_iter
from twisted.python.failure import Failure

from crawling.client.client_of import FetchClient
from crawling.engine.gathering import Gathering
from crawling.engine.middlewares import (
    OutcomeMiddleware,
    OutlinksMiddleware,
    ResultPipeline,
    WatchedCompression,
)
from crawling.lane.loop_turns import LoopTurns
from crawling.page.flight_recorder import exits_contained
from crawling.page.page import Page
from crawling.page.scrapy_request import PAGE
from crawling.parts import Parts
from crawling.publish.publisher import GivenUp

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_SMALLEST = 1024
"""Bytes that a page counts for at least, as in Scrapy."""

log = structlog.get_logger()


class Lane:
    """All pages of a process that go the short way."""

    def __init__(self, crawler: Crawler, client: FetchClient) -> None:
        """The crawler's engine has been made, and its spider is open."""
        engine = crawler.engine
        assert engine is not None
        self._crawler = crawler
        self._parts = Parts.of(crawler)
        self._scraper = engine.scraper
        downloads, spiders = engine.downloader.middleware.middlewares, self._scraper.spidermw
        self._defaults = _defaults(downloads)
        self._unpack = _one_of(WatchedCompression, downloads)
        self._outcome = _one_of(OutcomeMiddleware, downloads)
        self._outlinks = _one_of(OutlinksMiddleware, spiders.middlewares)
        self._pipeline = _one_of(ResultPipeline, self._scraper.itemproc.middlewares)
        self._loop = asyncio.get_running_loop()
        self._turns = LoopTurns(self._loop)
        self._tasks: set[asyncio.Task[None]] = set()
        self._most_size = crawler.settings.getint("SCRAPER_SLOT_MAX_ACTIVE_SIZE")
        self._size = 0
        self._client = client

    @property
    def is_full(self) -> bool:
        """Return whether the bytes that wait for spider and Kafka leave room for no more pages."""
        return self._size > self._most_size

    def start(self, page: Page, request: Request) -> None:
        """Bring a page to its end, in a task of its own."""
        task = self._loop.create_task(self._run(page, request))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, GivenUp):
            log.warning("publish", outcome="given_back", error=str(error))
        elif error is not None:
            log.error("fetch", outcome="task_failed", exc_info=error)

    async def finish(self) -> None:
        """Wait for all pages in progress."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def close(self) -> None:
        """Close all connections; no page may be in progress."""
        self._client.close()

    async def fetch_only(self, request: Request, page: Page) -> Response:
        """Download something by the grant of its page, as it comes."""
        return await self._client.fetch(request, page)

    async def fetch(self, request: Request) -> Response:
        """Download something by the grant of its page, unpacked."""
        page: Page = request.meta[PAGE]
        with self._parts.deadlines.stretch(page):
            return await self._fetch(request, page)

    async def _fetch(self, request: Request, page: Page) -> Response:
        for name, values in self._defaults:
            dict.setdefault(request.headers, name, list(values))
        response: Response = await self._client.fetch(request, page)
        if self._unpack and b"Content-Encoding" in response.headers:
            response = await self._unpack.process_response(request, response)
        return response

    async def _run(self, page: Page, request: Request) -> None:
        try:
            response = await self._come(page, request)
        except Exception as error:  # noqa: BLE001  the errback's
            failure = Failure(error)
            failure.request = request  # type: ignore[attr-defined]
            await self._parts.outcomes.failed(failure)
            return
        size = max(len(response.body), _SMALLEST)
        self._size += size
        try:
            await self._parse(page, request, response)
        finally:
            self._size -= size

    async def _come(self, page: Page, request: Request) -> Response:
        """The response if it is for the spider."""
        response: Response
        with self._parts.deadlines.stretch(page):
            response = await self._fetch(request, page)
            await self._turns.take()
            response = await self._outcome.process_response(request, response)
        return response

    async def _parse(self, page: Page, request: Request, response: Response) -> None:
        spider = self._crawler.spider
        assert spider is not None
        callback = _callback_of(request, spider)
        try:
            if inspect.isgeneratorfunction(callback):
                steps = callback(response, **request.cb_kwargs)
                await self._step_by_step(page, response, steps)
            else:
                came = await self._output_of(page, callback, response, request.cb_kwargs)
                async for item in self._outlinks.process_spider_output(response, came):
                    await self._publish(page, response, item)
        except Exception as error:  # noqa: BLE001  the spider's
            self._scraper.handle_spider_error(Failure(_bounded(error)), request, response)

    async def _step_by_step(self, page: Page, response: Response, steps: Iterator[Any]) -> None:
        """Yield the items of a plain generator."""
        gathering = Gathering(page, response, self._parts, self._crawler.spider)
        try:
            while (item := self._next_item(page, gathering, steps)) is not None:
                await self._publish(page, response, item)
        finally:
            gathering.stop()
        gathering.complete()

    def _next_item(self, page: Page, gathering: Gathering, steps: Iterator[Any]) -> Any:
        """The next item of a spider, its links taken in on the way; None after the last."""
        recorder = self._parts.recorder
        recorder.note(page)
        try:
            with exits_contained():
                for each in steps:
                    if (item := gathering.take(each)) is not None:
                        return item
        finally:
            recorder.clear(page)
        return None

    async def _output_of(
        self, page: Page, callback: Any, response: Response, named: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Yield the items of a callback of any other kind."""
        came = self._parts.recorder.call(page, callback, response, **named)
        if inspect.isawaitable(came):
            came = await came
        if not hasattr(came, "__aiter__"):
            came = arg_to_iter(came)
        return as_async_generator(came)

    async def _publish(self, page: Page, response: Response, item: Any) -> None:
        endings = self._parts.endings
        try:
            await self._pipeline.process_item(item)
        except DropItem as error:
            log.warning("publish", outcome="dropped", url=page.lease.entry.url, reason=str(error))
        except Exception as error:
            if not isinstance(error, GivenUp):
                log.exception("publish", outcome="failed", url=page.lease.entry.url)
            endings.item_failed(response, Failure(error))
            return
        endings.item_left(response)


def _callback_of(request: Request, spider: Spider) -> Any:
    """Return the callback that Scrapy would call, without ``Spider._parse`` around ``parse``."""
    if request.callback:
        return request.callback
    if type(spider)._parse is Spider._parse:  # noqa: SLF001  as Scrapy does
        return spider.parse
    return spider._parse  # noqa: SLF001


def _bounded(error: Exception) -> Exception:
    """A page cannot end the process: others would meet it, and end as well."""
    if not isinstance(error, CloseSpider):
        return error
    refused = TypeError("CloseSpider is not supported: a cluster spider ends only with its process")
    refused.__cause__ = error
    return refused


def _defaults(middlewares: Any) -> list[tuple[bytes, list[bytes]]]:
    """The headers that Scrapy's middlewares give to a request that has none of its own."""
    bare = Request("http://localhost/")
    for each in middlewares:
        if hasattr(each, "process_request"):
            each.process_request(bare)
    return list(dict.items(bare.headers))


def _one_of(kind: type[Any], among: Any) -> Any:
    """The one of a kind; None where it is switched off."""
    return next((each for each in among if isinstance(each, kind)), None)
