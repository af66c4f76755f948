"""Judges a download: a page for the spider, another attempt, a redirect, or a failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from twisted.python.failure import Failure

from crawling.egress.payments import Payments, count_unasked
from crawling.failures import BadStatus, RequestReplaced, is_retryable, reason_of
from crawling.lease.cpu_fairness import BODY_S_PER_BYTE
from crawling.lease.expired import GrantExpired
from crawling.lease.leases import Leases
from crawling.links.children import Children
from crawling.links.documents import DocumentReader
from crawling.links.scope import OF_THE_CRAWL, RedirectRules
from crawling.page.page import Page
from crawling.page.scrapy_request import page_of
from crawling.publish.completion import Completion
from crawling.publish.publisher import GivenUp
from crawling.response.codings import Undecoded
from crawling.response.payment import PAYMENT_REQUIRED, payment_of
from crawling.response.redirects import redirect_of, sent_elsewhere
from crawling.response.site_feedback import retry_after
from crawlstream.boot.settings import Settings
from crawlstream.model.crawl import Entry
from crawlstream.model.effects import Outcome
from crawlstream.model.statuses import RETRIED

_LARGEST_STATUS = 999
"""Statuses are counted one by one; a site must not create any number of counters."""
_FIRST_PAUSE_MS = 1_000
_LONGEST_PAUSE_MS = 60_000
_LONGEST_RETRY_AFTER_S = 600
"""A site may ask for more; the page then meets the same answer once more, and says so."""

log = structlog.get_logger()


class PageEnded(IgnoreRequest):
    """The page has come to its end; nothing of it is left for the spider."""


class Outcomes:
    """Decides what a response or an error means for its page."""

    def __init__(
        self,
        endings: Completion,
        leases: Leases,
        settings: Settings,
        count: Callable[[Page, int, str], None],
        *,
        payments: Payments | None = None,
        redirects: RedirectRules = OF_THE_CRAWL,
    ) -> None:
        """``count`` takes the page, the status of each response, or 504 and why there was none."""
        self.endings = endings
        self.leases = leases
        self.settings = settings
        self._count = count
        self.redirects = redirects
        self._payments = payments
        self.look: Callable[[Page, Response], bool] = lambda _page, _response: True
        """Looks at the response of a page of a crawl with ``render``; returns False if the page
        was handed over to a browser."""
        self.archive: Callable[[Page, Response], Awaitable[None]] | None = None
        """Publishes the response of a redirect, for crawls that archive it."""
        self.documents = DocumentReader() if settings.documents else None
        """Reads the links of documents; None: they have none."""

    async def judge(self, page: Page, response: Response) -> None:
        """Return if the response is for the spider; raise Ended if it is not."""
        if response.status > _LARGEST_STATUS:
            await self.give_up(page, BadStatus(f"status {response.status}"))
            raise PageEnded
        page.status = response.status
        self.leases.answered(page)
        page.cpu_s += len(response.body) * BODY_S_PER_BYTE
        self._count(page, response.status, "")
        page.payment = payment_of(response, page.offer)
        if page.payment:
            count_unasked(page)
        if response.status == PAYMENT_REQUIRED:
            await self._want_money(page)
        if response.status in RETRIED and self._may_retry(page):
            self._retry(page, f"http_{response.status}", response)
            raise PageEnded
        refresh_s = self.settings.metarefresh_maxdelay if self.settings.metarefresh_enabled else 0
        target = redirect_of(page, response, refresh_s, self.redirects)
        if target is not None:
            if page.lease.profile.archive and self.archive:
                await self.archive(page, response)
            await self._follow(page, target)
            raise PageEnded
        if isinstance(response, Undecoded):
            await self.endings.fail(page, reason_of(response.problem), str(response.problem))
            raise PageEnded

    async def _want_money(self, page: Page) -> None:
        """Try a page again if its purse pays the price, else report its origin."""
        if self._payments and self._may_retry(page) and await self._payments.can_pay(page):
            log.info("requeue", url=page.lease.entry.url, reason="http_402", delay_ms=0)
            self.leases.requeue(page, 0)
            raise PageEnded
        await self.endings.priced.note(page)

    async def failed(self, failure: Failure) -> None:
        """The errback of every page: no response came, or none that can be read.

        A worker that is about to end may give up waiting for Kafka; the page then stays open.
        """
        page, error = page_of(failure.request), failure.value  # type: ignore[attr-defined]
        if not page.is_open or error is None or isinstance(error, PageEnded | GivenUp):
            return
        if isinstance(error, GrantExpired):
            log.debug("release", url=page.lease.entry.url, reason=error.reason)
            self.leases.release(page, delay_ms=error.delay_ms)
            return
        if isinstance(error, RequestReplaced) and (target := sent_elsewhere(page, error.request)):
            await self._follow(page, target)
        elif isinstance(error, RequestReplaced) and self._may_retry(page):
            self._retry(page, "asked_again")
        else:
            await self.give_up(page, error)

    async def give_up(self, page: Page, error: BaseException) -> None:
        """Try a page again whose download failed, or fail it for good."""
        reason = "ignored" if isinstance(error, IgnoreRequest) else reason_of(error)
        self._count(page, 504, reason)
        if reason == "too_large":
            page.cpu_s += self.settings.download_max_bytes * BODY_S_PER_BYTE
        if is_retryable(reason) and self._may_retry(page):
            self._retry(page, reason)
        else:
            await self.endings.fail(page, reason, str(error))

    def _may_retry(self, page: Page) -> bool:
        return page.lease.retries < self.settings.retry_times

    def _retry(self, page: Page, reason: str, response: Response | None = None) -> None:
        delay_ms = _pause_ms(page.lease.retries, response)
        log.info(
            "requeue",
            url=page.lease.entry.url,
            reason=reason,
            attempt=page.lease.attempt,
            delay_ms=delay_ms,
        )
        self.leases.requeue(page, delay_ms)

    async def _follow(self, page: Page, target: Entry | str) -> None:
        """End a page whose chain goes on, or ends here for a reason."""
        if isinstance(target, str):
            await self.endings.fail(page, target)
        else:
            self.move(page, target)

    def move(self, page: Page, target: Entry, priority: int | None = None) -> None:
        """End a page in favour of another, with its own priority or another one."""
        children = Children(page)
        own = page.lease.priority if priority is None else priority
        children.add(target, own, counts=False)
        page.links = children.groups
        log.info("settle", url=page.lease.entry.url, outcome="redirected", to=target.url)
        self.leases.settle(page, Outcome.REDIRECTED, "")


def _pause_ms(retries: int, response: Response | None) -> int:
    """Return how long a page waits before its next attempt: doubling, or as long as the site asks.

    Its whole domain is left alone by the frontier; see :mod:`crawling.response.site_feedback`.
    """
    pause_ms = min(_FIRST_PAUSE_MS << retries, _LONGEST_PAUSE_MS)
    asked_s = retry_after(response)[0] if response else 0
    return max(pause_ms, int(min(asked_s, _LONGEST_RETRY_AFTER_S) * 1000))
