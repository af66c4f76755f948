"""Ends a page once Kafka has acknowledged its records: done or failed, then settled.

A page is done when its spider has yielded everything and every item has left the pipelines. Scrapy
has a different signal for each way in which a page ends; all of them are handled here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import structlog
from scrapy import Request, signals
from scrapy.http import Response
from twisted.python.failure import Failure

from crawling.background import Tasks
from crawling.failures import CALLBACK_TIMEOUT, PageTimeout
from crawling.lease.leases import Leases
from crawling.page.page import Page
from crawling.page.scrapy_request import PAGE
from crawling.publish.deadlines import Deadlines
from crawling.publish.page_answers import PageAnswers
from crawling.publish.priced_origins import PricedOrigins
from crawling.publish.publisher import GivenUp, Publisher
from crawling.publish.skipping import Skipping
from crawling.waste.watch import WasteWatch
from crawlstream.boot.failpoints import failpoint
from crawlstream.model.crawl import ANSWER_ACCEPTED
from crawlstream.model.effects import Outcome
from crawlstream.model.event import DETAIL_LENGTH, PageFailed

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_EXPLAINED = frozenset({"invalid_request", "item_error", "spider_error"})
"""Reasons whose event has the exception. Errors of the network stay in the log: they could reveal
internal addresses to a client."""

_PAUSE_MS = 60_000
"""Before a page that did not end is tried again."""

log = structlog.get_logger()


class Completion:
    """Brings the pages of this process to their end."""

    def __init__(
        self, leases: Leases, publisher: Publisher, tasks: Tasks, retries: int = 0
    ) -> None:
        """``retries``: how often a page is tried again whose spider or pipelines did not end."""
        self.deadlines = Deadlines()
        self.priced = PricedOrigins(publisher)
        self.answers = PageAnswers(publisher)
        self.skipping = Skipping(leases, publisher, tasks)
        """Ends pages before their requests."""
        self.waste: WasteWatch | None = None
        """Takes the votes of pages that are done; None: the waste guard is off."""
        self._retries = retries
        self._leases = leases
        self._publisher = publisher
        self._tasks = tasks

    def listen(self, crawler: Crawler) -> None:
        """Receive Scrapy's signals about callbacks and items."""
        connect = crawler.signals.connect
        connect(self.item_left, signals.item_scraped)
        connect(self.item_left, signals.item_dropped)
        connect(self.item_failed, signals.item_error)
        connect(self.spider_failed, signals.spider_error)
        connect(self.dropped, signals.request_dropped)

    async def fail(self, page: Page, reason: str, detail: str = "") -> None:
        """The page will have no result: say so in Kafka, then in the frontier."""
        if not page.is_open:
            return
        self._leases.body_budget.drop(page)
        lease = page.lease
        event = PageFailed(
            id=page.id,
            crawl=lease.crawl,
            run=lease.run,
            server_time=int(time.time()),
            url=lease.entry.url,
            reason=reason,
            attempts=lease.attempt,
            depth=lease.entry.depth,
            parent_url=lease.entry.parent_url,
            uuid=lease.profile.uuid,
            firing=lease.firing,
            detail=_readable(detail) if reason in _EXPLAINED else "",
        )
        await self._publisher.event(event)
        if page.is_asked_for:
            await self.answers.fail(page, reason)
        failpoint("after_publish")
        detail = detail[:DETAIL_LENGTH]
        log.warning("settle", outcome="failed", reason=reason, url=event.url, detail=detail)
        self._leases.settle(page, Outcome.FAILED, reason)

    def fail_soon(self, page: Page, reason: str, detail: str = "") -> None:
        """Fail a page in a task of its own, where the caller cannot wait for Kafka."""
        self._tasks.spawn(self.fail(page, reason, detail))

    def parsed(self, page: Page) -> None:
        """The spider has yielded everything it will."""
        page.parsed = True
        self._settle_if_over(page)

    def item_left(self, response: Any) -> None:
        """An item has passed the last pipeline, or was dropped by one of the user's."""
        if page := _page_behind(response):
            page.items -= 1
            self._settle_if_over(page)

    def item_failed(self, response: Any, failure: Failure) -> None:
        """A pipeline raised. If it only gave up waiting for a service, the page stays open."""
        page = _page_behind(response)
        if page and isinstance(failure.value, GivenUp):
            self._leases.body_budget.drop(page)
        elif page:
            _note(page, "item_error", failure)
            self.item_left(response)

    def spider_failed(self, response: Any, failure: Failure) -> None:
        """The spider raised; what it had yielded before takes its course."""
        if page := _page_behind(response):
            _note(page, "spider_error", failure)
            self.parsed(page)

    def dropped(self, request: Request) -> None:
        """Scrapy did not take the request."""
        if page := request.meta.get(PAGE):
            self._leases.release(page)

    def _settle_if_over(self, page: Page) -> None:
        if not page.parsed or page.items or not page.is_open:
            return
        if page.failure == CALLBACK_TIMEOUT and page.lease.retries < self._retries:
            log.info("requeue", url=page.lease.entry.url, reason=page.failure)
            self._leases.requeue(page, _PAUSE_MS)
            return
        if page.failure:
            self.fail_soon(page, page.failure, page.failure_detail)
            return
        if page.lease.profile.answer != ANSWER_ACCEPTED and page.is_asked_for:
            self._tasks.spawn(self._answer_without_result(page))
            return
        log.info(
            "settle",
            outcome="done",
            url=page.lease.entry.url,
            status=page.status,
            attempt=page.lease.attempt,
            links=sum(len(group.entries) for group in page.links),
            latency_ms=page.latency_ms,
        )
        if self.waste:
            self.waste.note(page)
        self._leases.settle(page, Outcome.DONE, f"{page.status // 100}xx")

    async def _answer_without_result(self, page: Page) -> None:
        """Reply to the client of a page of which its spider has made no result, and settle."""
        await self.answers.fail(page, "no_result")
        self._settle_if_over(page)


def _note(page: Page, reason: str, failure: Failure) -> None:
    page.failure = CALLBACK_TIMEOUT if isinstance(failure.value, PageTimeout) else reason
    page.failure_detail = f"{type(failure.value).__name__}: {failure.value}"


def _readable(detail: str) -> str:
    """As much of it as an event repeats, and nothing that JSON could not hold."""
    return detail[:DETAIL_LENGTH].encode(errors="replace").decode()


def _page_behind(response: Any) -> Page | None:
    """The page of a signal's response; none where an errback or ``start()`` was at work."""
    page: Page | None = response.meta.get(PAGE) if isinstance(response, Response) else None
    return page
