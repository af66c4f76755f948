"""Requests the requisites of a page with libcurl, and publishes them.

What is equal for all requests to one origin is made once: headers, the site, the request's form.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from typing import Any, Final

from scrapy import Request
from scrapy.downloadermiddlewares.httpcompression import ACCEPTED_ENCODINGS
from scrapy.exceptions import DownloadTimeoutError
from scrapy.http import Headers, Response

from crawling.failures import BadEncoding
from crawling.lease.expired import GrantExpired
from crawling.lease.leases import Leases
from crawling.lease.machines import OtherMachine
from crawling.page.directives import directives_of
from crawling.page.page import FURTHER, Page
from crawling.page.rights import rights_of
from crawling.page.scrapy_request import PAGE, headers_of, octets_in
from crawling.publish.publisher import Publisher
from crawling.requisites.loading import Fetched
from crawling.response.codings import MOST_CODINGS, codings_of, unpacked, without_codings
from crawling.robots.further import FurtherRobots
from crawling.robots.lines import product_token
from crawling.spiders.base import result_of
from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.settings import Settings
from crawlstream.model.crawl import Entry, Lease
from crawlstream.model.result import REQUISITE, CrawlResult
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.model.url import origin_of
from crawlstream.model.web.directives import ban_of

_MOST_AT_ONCE: Final = 16
"""Requisites that a process requests at once; each may be a large body."""
_ACCEPT = {"accept": "*/*", "accept-encoding": b", ".join(ACCEPTED_ENCODINGS).decode()}
_OF_LEASE = tuple(each.name for each in fields(Lease))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequisiteParts:
    """Parts of the worker that requisites need."""

    leases: Leases
    robots: FurtherRobots
    publisher: Publisher
    table: Callable[[], Awaitable[ThrottleTable | None]]
    """Returns the throttle rules in force."""
    fetch: Callable[[Request, Page], Awaitable[Response]]
    """Downloads a request with libcurl; the body stays encoded as it was sent."""
    noting: Callable[[Page], AbstractContextManager[None]]
    """Notes a page in the flight recorder while its bodies are decoded and parsed."""
    settings: Settings
    agent: str
    """User agent of requests if the crawl sets none."""


class _RequisiteRequest(Request):
    """A request whose URL is known to be valid, and whose headers are shared with others."""

    def __init__(self, url: str, headers: Headers, meta: dict[str, Any]) -> None:
        super().__init__(url, meta=meta, dont_filter=True)
        self.headers = headers

    def _set_url(self, url: str) -> None:
        self._url = url


class Turns:
    """Limits and numbers the requests for the requisites of all pages of a process."""

    def __init__(self) -> None:
        self.room = asyncio.Semaphore(_MOST_AT_ONCE)
        self.numbers = itertools.count()


@dataclass(slots=True)
class Fetching:
    """The requests for the requisites of one page; see ``loading.RequisiteClient``."""

    parts: RequisiteParts
    turns: Turns
    page: Page
    _lease: Mapping[str, Any] = field(init=False)
    """Fields that the leases of its requisites have in common."""
    _headers: dict[str, Headers] = field(default_factory=dict)
    """Headers of requests by origin."""

    def __post_init__(self) -> None:
        own = self.page.lease
        common = {name: getattr(own, name) for name in _OF_LEASE}
        self._lease = {**common, "retries": 0, "is_gentle": False}

    async def fetch(self, url: str, *, most_bytes: int, until: float) -> Fetched:
        """Request a requisite; see ``RequisiteClient``."""
        async with self.turns.room:
            left_s = until - time.monotonic()
            if left_s <= 0 or not self.page.is_open:
                raise GrantExpired
            lent = self._lend(url, self.page.lease.gate)
            try:
                return await self._download(lent, most_bytes=most_bytes, until=until)
            except OtherMachine:
                lent = self._lend(url, lent.located or "")
                return await self._download(lent, most_bytes=most_bytes, until=until)

    async def _download(self, lent: Page, *, most_bytes: int, until: float) -> Fetched:
        """Return the response, unpacked; forget the page that stands for it if there is none."""
        settings, left_s = self.parts.settings, max(until - time.monotonic(), 0)
        most_bytes = min(most_bytes, settings.download_max_bytes)
        timeout_s = min(left_s, settings.download_timeout)
        meta = {PAGE: lent, "download_maxsize": most_bytes, "download_timeout": timeout_s}
        request = _RequisiteRequest(lent.lease.entry.url, self._headers_for(lent.lease), meta)
        try:
            async with asyncio.timeout(left_s):
                response = await self.parts.fetch(request, lent)
            if b"Content-Encoding" in response.headers and response.body:
                response = await self._unpacked(lent, response, most_bytes)
        except TimeoutError as error:
            self._forget([lent])
            words = f"no complete response within {left_s:.1f} s"
            raise DownloadTimeoutError(words) from error
        except BaseException:
            self._forget([lent])
            raise
        response.request = request
        return Fetched(response, lent)

    def _lend(self, url: str, gate: str) -> Page:
        """Return a page of this process for a request that the frontier has no lease of."""
        leases, own = self.parts.leases, self.page.lease
        depth, parent = own.entry.depth, own.entry.url
        fields_of_its_own = {
            "token": f"{FURTHER}-{next(self.turns.numbers)}",
            "domain": leases.sites.site_of(own.partition, url),
            "entry": Entry(url=url, depth=depth, parent_url=parent, salt=FURTHER),
            "issued_at": leases.clock(),
            "gate": gate,
        }
        lent = leases.admit(Lease(**{**self._lease, **fields_of_its_own}))
        lent.is_lent = True
        return lent

    def _headers_for(self, lease: Lease) -> Headers:
        origin = origin_of(lease.entry.url)
        if (headers := self._headers.get(origin)) is None:
            told = {"user-agent": self.parts.agent, **_ACCEPT, **headers_of(lease)}
            headers = self._headers[origin] = Headers(octets_in(told))
        return headers

    async def _unpacked(self, lent: Page, response: Response, most_bytes: int) -> Response:
        """Return a response with its body after content decoding; BadEncoding, TooLarge."""
        codings = codings_of(response)
        if not codings:
            return unpacked(response)
        if len(codings) > MOST_CODINGS:
            raise BadEncoding(f"{len(codings)} nested content encodings")
        budget = self.parts.leases.body_budget
        await budget.turn(lent)
        with self.parts.noting(self.page):
            plain = without_codings(response, codings, most_bytes)
        if lent.is_open:
            budget.weigh(lent, len(plain.body) + len(response.body))
        return plain

    async def publish(self, some: Sequence[Fetched]) -> Sequence[Exception | None]:
        """Publish responses; see ``RequisiteClient``."""
        results = [archived(self.parts.settings, *each, REQUISITE) for each in some]
        errors = await self.parts.publisher.requisites(results)
        for _ in some:
            failpoint("after_requisite")
        return errors

    def let_go(self, some: Iterable[Fetched]) -> None:
        """Forget responses; see ``RequisiteClient``."""
        self._forget([each.lent for each in some])

    def _forget(self, lent: Sequence[Page]) -> None:
        partition = self.page.lease.partition
        self.parts.leases.lose(partition, [each.token for each in lent])


def archived(settings: Settings, response: Response, page: Page, kind: str) -> CrawlResult:
    """Return the record of a response that has no result; its body may not be kept."""
    profile = page.lease.profile
    purpose = profile.purpose or settings.purpose
    assert response.request is not None
    agent = (response.request.headers.get(b"User-Agent") or b"").decode("latin-1")
    page.directives = directives_of(response, product_token(agent), None)
    page.rights = rights_of(response, None, None, purpose)
    obeyed = {*settings.drop, *(profile.drop or ())}
    page.dropped = ban_of(page.directives.texts, obeyed, page.received_at, page.rights)
    return result_of(page, response, attrs=profile.attrs, kind=kind)
