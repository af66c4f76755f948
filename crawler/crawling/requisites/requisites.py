"""Brings the requisites of pages whose crawl archives them, before their results are published.

They are *further requests* of their page, like those of a rendered one: no entry of the frontier,
no page of the crawl. A worker requests each once a run, with the same id whenever it is repeated.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

import structlog
from scrapy import Request
from scrapy.downloadermiddlewares.httpcompression import ACCEPTED_ENCODINGS
from scrapy.exceptions import DownloadTimeoutError
from scrapy.http import Headers, HtmlResponse, Response

from crawling.failures import BadEncoding
from crawling.lease.expired import GrantExpired
from crawling.lease.leases import Leases
from crawling.lease.machines import OtherMachine
from crawling.page.directives import directives_of
from crawling.page.page import FURTHER, Page
from crawling.page.rights import rights_of
from crawling.page.scrapy_request import PAGE, AddressRequest, headers_of, octets_in
from crawling.publish.deadlines import publishing
from crawling.publish.publisher import Publisher
from crawling.render.judge import Judge, Rests
from crawling.requisites.found import Requisite, requisites_of
from crawling.requisites.known import KnownRequisites
from crawling.requisites.loading import Fetched, Loading
from crawling.response.codings import MOST_CODINGS, codings_of, unpacked, without_codings
from crawling.response.media_type import class_of
from crawling.robots.further import FurtherRobots
from crawling.robots.lines import product_token
from crawling.spiders.base import ClusterSpider
from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.settings import Settings
from crawlstream.model.crawl import Entry, Lease
from crawlstream.model.egress.render import TYPES
from crawlstream.model.result import REDIRECT, REQUISITE, CrawlResult
from crawlstream.model.statuses import RETRIED
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.model.url import origin_of
from crawlstream.model.web.directives import ban_of

_MOST_AT_ONCE: Final = 16
"""Requisites that this process requests at once; each may be a large body."""
_RULES_HOLD_S: Final = 1.0
"""Seconds until the throttle rules are read again."""
_ACCEPT = {"accept": "*/*", "accept-encoding": b", ".join(ACCEPTED_ENCODINGS).decode()}

T = TypeVar("T")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequisiteParts:
    """Parts of the worker that requisites need."""

    leases: Leases
    robots: FurtherRobots
    publisher: Publisher
    table: Callable[[], Awaitable[ThrottleTable | None]]
    """Returns the throttle rules in force."""
    fetch: Callable[[Request, Page], Awaitable[Response]]
    """Downloads a request with libcurl, as it comes."""
    noting: Callable[[Page], AbstractContextManager[None]]
    """The flight recorder's."""
    spider: Callable[[], ClusterSpider]
    settings: Settings
    agent: str
    """User agent of requests where a crawl names no other."""


class Requisites:
    """The requisites of all pages of a process."""

    def __init__(self, parts: RequisiteParts) -> None:
        self._parts = parts
        self._known, self._rests = KnownRequisites(), Rests()
        self._turns = asyncio.Semaphore(_MOST_AT_ONCE)
        self._numbers = itertools.count()
        self._table: ThrottleTable | None = None
        self._read_again_at = 0.0

    async def bring(self, page: Page, result: CrawlResult) -> CrawlResult:
        """Publish the requisites of a result; return it with the account of them. GivenUp."""
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
            fetch=self._fetch,
            reading=partial(self._read, page),
            most_bytes=settings.render_bytes,
            timeout_s=settings.requisites_timeout,
        )
        return replace(result, requisites=await loading.run(found))

    async def redirected(self, page: Page, response: Response) -> None:
        """Publish the response of a redirect, which has no result. GivenUp."""
        with publishing(page):
            await self._publish(page, response, REDIRECT)

    async def _rules(self) -> ThrottleTable | None:
        """Return rules that were in force a second ago; None before the first. GivenUp."""
        if time.monotonic() >= self._read_again_at:
            table = await self._parts.publisher.insist("redis", self._parts.table)
            self._table, self._read_again_at = table, time.monotonic() + _RULES_HOLD_S
        return self._table

    def _found(self, page: Page, result: CrawlResult) -> Sequence[Requisite]:
        headers = Headers({name: list(values) for name, values in result.response_headers.items()})
        kind = class_of(headers, result.response_url, result.body)
        if not (result.body and issubclass(kind, HtmlResponse)):
            return ()
        response = HtmlResponse(
            result.response_url, headers=headers, body=result.body, encoding=result.encoding
        )
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

    async def _fetch(self, page: Page, url: str, *, most_bytes: int, until: float) -> Fetched:
        """Request a requisite; see ``Fetch``."""
        async with self._turns:
            left_s = until - time.monotonic()
            if left_s <= 0 or not page.is_open:
                raise GrantExpired
            lent, response = await self._answer(page, url, most_bytes=most_bytes, left_s=left_s)
        if response.status in RETRIED:
            self._return(lent)
        return Fetched(response, lambda: self._publish_lent(lent, response))

    async def _publish_lent(self, lent: Page, response: Response) -> None:
        try:
            await self._publish(lent, response, REQUISITE)
            failpoint("after_requisite")
        finally:
            self._return(lent)

    async def _answer(
        self, page: Page, url: str, *, most_bytes: int, left_s: float
    ) -> tuple[Page, Response]:
        """Return the response, unpacked, and the page that stands for the request of it."""
        lent = self._lend(page, url, page.lease.gate)
        try:
            return lent, await self._download(page, lent, most_bytes=most_bytes, left_s=left_s)
        except OtherMachine:
            self._return(lent)
            lent = self._lend(page, url, lent.located or "")
            try:
                return lent, await self._download(page, lent, most_bytes=most_bytes, left_s=left_s)
            except BaseException:
                self._return(lent)
                raise
        except BaseException:
            self._return(lent)
            raise

    async def _download(
        self, page: Page, lent: Page, *, most_bytes: int, left_s: float
    ) -> Response:
        settings = self._parts.settings
        most_bytes = min(most_bytes, settings.download_max_bytes)
        timeout_s = min(left_s, settings.download_timeout)
        request = self._request(lent)
        request.meta.update(download_maxsize=most_bytes, download_timeout=timeout_s)
        try:
            async with asyncio.timeout(left_s):
                response = await self._parts.fetch(request, lent)
        except TimeoutError as error:
            raise DownloadTimeoutError(f"no complete response within {left_s:.1f} s") from error
        response = await self._unpacked(page, lent, response, most_bytes)
        response.request = request
        return response

    def _lend(self, page: Page, url: str, gate: str) -> Page:
        """Return a page of this process for a request that the frontier has no lease of."""
        leases, own = self._parts.leases, page.lease
        lease: Lease = replace(
            own,
            token=f"{FURTHER}-{next(self._numbers)}",
            domain=leases.sites.site_of(own.partition, url),
            entry=Entry(url=url, depth=own.entry.depth, parent_url=own.entry.url, salt=FURTHER),
            retries=0,
            issued_at=leases.clock(),
            is_gentle=False,
            gate=gate,
        )
        lent = leases.admit(lease)
        lent.is_lent = True
        return lent

    def _return(self, lent: Page) -> None:
        self._parts.leases.lose(lent.lease.partition, [lent.token])

    def _request(self, lent: Page) -> Request:
        headers = {"user-agent": self._parts.agent, **_ACCEPT, **headers_of(lent.lease)}
        return AddressRequest(
            lent.lease.entry.url,
            headers=octets_in(headers),
            meta={PAGE: lent},
            priority=lent.lease.priority,
            dont_filter=True,
        )

    async def _unpacked(
        self, page: Page, lent: Page, response: Response, most_bytes: int
    ) -> Response:
        """Return a response with its body after content decoding; BadEncoding, TooLarge."""
        if b"Content-Encoding" not in response.headers or not response.body:
            return response
        codings = codings_of(response)
        if not codings:
            return unpacked(response)
        if len(codings) > MOST_CODINGS:
            raise BadEncoding(f"{len(codings)} nested content encodings")
        budget = self._parts.leases.body_budget
        await budget.turn(lent)
        with self._parts.noting(page):
            plain = without_codings(response, codings, most_bytes)
        if lent.is_open:
            budget.weigh(lent, len(plain.body) + len(response.body))
        return plain

    async def _publish(self, page: Page, response: Response, kind: str) -> None:
        self._read_statements(page, response)
        result = ClusterSpider.result(self._parts.spider(), response)
        await self._parts.publisher.requisite(replace(result, kind=kind))

    def _read_statements(self, page: Page, response: Response) -> None:
        """Note what a response says about its body, which may not be kept."""
        settings, profile = self._parts.settings, page.lease.profile
        assert response.request is not None
        agent = (response.request.headers.get(b"User-Agent") or b"").decode("latin-1")
        purpose = profile.purpose or settings.purpose
        page.directives = directives_of(response, product_token(agent), None)
        page.rights = rights_of(response, None, None, purpose)
        obeyed = {*settings.drop, *(profile.drop or ())}
        page.dropped = ban_of(page.directives.texts, obeyed, page.received_at, page.rights)
