"""Brings the requisites of pages whose crawl archives them, before their results are published.

They are *further requests* of their page, like those of a rendered one: no entry of the frontier,
no page of the crawl. A worker requests each once a run, with the same id whenever it is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import structlog
from scrapy.http import Headers, HtmlResponse, Response

from crawling.page.page import Page
from crawling.publish.deadlines import publishing
from crawling.render.judge import Judge, Rests
from crawling.requisites.fetching import Fetching, RequisiteParts, Turns, archived
from crawling.requisites.found import Requisite, requisites_in, requisites_of
from crawling.requisites.known import KnownRequisites
from crawling.requisites.loading import Loading
from crawling.response.media_type import class_of
from crawlstream.model.egress.render import TYPES
from crawlstream.model.result import REDIRECT, CrawlResult
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.model.url import origin_of

_RULES_HOLD_S: Final = 1.0
"""Seconds until the throttle rules are read again."""

log = structlog.get_logger()


class Requisites:
    """The requisites of all pages of a process."""

    def __init__(self, parts: RequisiteParts) -> None:
        self._parts = parts
        self._known, self._rests = KnownRequisites(), Rests()
        self._turns = Turns()
        self._table: ThrottleTable | None = None
        self._read_again_at = 0.0

    async def bring(self, page: Page, result: CrawlResult) -> CrawlResult:
        """Publish the requisites of a result; return it with its ``requisites`` field. GivenUp."""
        found = self._found(page, result)
        table = await self._rules() if found else None
        if table is None:
            return result
        settings = self._parts.settings
        loading = Loading(
            page=page,
            judge=self._judge_of(page, table),
            robots=self._parts.robots,
            known=self._known,
            client=Fetching(self._parts, self._turns, page),
            reading=partial(self._read, page),
            most_bytes=settings.render_bytes,
            timeout_s=settings.requisites_timeout,
        )
        return replace(result, requisites=await loading.run(found))

    async def redirected(self, page: Page, response: Response) -> None:
        """Publish the response of a redirect, which has no result. GivenUp."""
        with publishing(page):
            result = archived(self._parts.settings, response, page, REDIRECT)
            await self._parts.publisher.requisite(result)

    async def _rules(self) -> ThrottleTable | None:
        """Return rules that were in force a second ago; None before the first. GivenUp."""
        if time.monotonic() >= self._read_again_at:
            table = await self._parts.publisher.insist("redis", self._parts.table)
            self._table, self._read_again_at = table, time.monotonic() + _RULES_HOLD_S
        return self._table

    def _found(self, page: Page, result: CrawlResult) -> Sequence[Requisite]:
        """Return what a page names; markup that was parsed for its links is used again."""
        url, (read, page.reading) = result.response_url, (page.reading, None)
        if read and read[0] is result.body:
            reading, encoding = read[1], result.encoding or "utf-8"
            return self._read(page, lambda: requisites_in(reading, encoding, url))
        headers = Headers({name: list(values) for name, values in result.response_headers.items()})
        kind = class_of(headers, url, result.body)
        if not (result.body and issubclass(kind, HtmlResponse)):
            return ()
        response = HtmlResponse(url, headers=headers, body=result.body, encoding=result.encoding)
        return self._read(page, lambda: requisites_of(response))

    def _read(self, page: Page, read: Callable[[], list[Requisite]]) -> list[Requisite]:
        """Return what a document of a stranger refers to; none if a parser cannot read it."""
        try:
            with self._parts.noting(page):
                return read()
        except Exception as error:  # noqa: BLE001  whatever a parser trips over, the page is kept
            log.warning("requisites", outcome="unread", error=repr(error)[:200])
            return []

    def _judge_of(self, page: Page, table: ThrottleTable) -> Judge:
        """Return the judge of a page, which counts what a browser has requested for it."""
        parts, url = self._parts, page.lease.entry.url
        sent = int(str((page.render or {}).get("requests", 0)))
        return Judge(
            origin=origin_of(url),
            site=table.site_of(url),
            table=table,
            types=frozenset(TYPES),
            most=parts.settings.render_requests,
            robots=partial(parts.robots.allows, page),
            rests=self._rests,
            may_send=lambda: page.is_open and parts.leases.may_send(page),
            sent=sent,
            own=sent,
            is_strict=True,
        )
