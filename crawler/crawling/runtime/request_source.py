"""Source of the requests that a spider's ``start()`` yields to Scrapy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from scrapy import Request, Spider

from crawling.page.page import Page, Phase
from crawling.page.scrapy_request import to_scrapy
from crawling.response.outcome import Outcomes
from crawling.runtime.way import Way
from crawlstream.errors import InvalidUrl

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class RequestSource:
    """Makes exactly one request for each grant."""

    def __init__(
        self,
        crawler: Crawler,
        ready: asyncio.Queue[Page],
        outcomes: Outcomes,
        *,
        way: Way,
        on_end: Callable[[], None],
    ) -> None:
        """``ready`` has pages that robots.txt allows; ``on_end`` is called when Scrapy ends."""
        self._crawler = crawler
        self._ready = ready
        self._outcomes = outcomes
        self._way = way
        self._on_end = on_end

    async def requests(self) -> AsyncIterator[Request]:
        """Yield the requests of pages for Scrapy's engine; start the others in the lane."""
        try:
            self._way.choose()
            while True:
                page = await self._ready.get()
                if page.phase is not Phase.WAITING:
                    continue
                spider = self._crawler.spider
                if spider is None:
                    raise RuntimeError("the spider is not open")
                request = request_of(page, spider, self._outcomes)
                if request is None:
                    continue
                if lane := self._way.lane_for(page):
                    lane.start(page, request)
                else:
                    yield request
        finally:
            self._on_end()


def request_of(page: Page, spider: Spider, outcomes: Outcomes) -> Request | None:
    """Return the request of a page; fail the page and return None if it cannot be made."""
    endings = outcomes.endings
    try:
        request = to_scrapy(page, spider, outcomes.failed)
        endings.deadlines.bind(request, page, spider)
    except (InvalidUrl, TypeError, ValueError) as error:
        endings.fail_soon(page, "invalid_request", str(error))
        return None
    return request
