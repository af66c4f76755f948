"""Requests the requisites of one page, within its bounds of number, bytes and time.

Styles are requested first, since they name further requisites. Requisites of other origins wait for
their robots.txt, which another request of their site pays for (:mod:`crawling.robots.elsewhere`).
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import structlog
from scrapy.http import Response

from crawling.failures import reason_of
from crawling.lease.expired import GrantExpired
from crawling.metrics import REQUISITES
from crawling.page.page import Page
from crawling.render.judge import Decision, FurtherRequest, Judge
from crawling.requisites.found import STYLESHEET, TYPES, Requisite, requisites_of_styles
from crawling.requisites.known import KnownRequisites, Place
from crawlstream.errors import InvalidUrl
from crawlstream.model.statuses import RETRIED
from crawlstream.model.url import origin_of
from crawlstream.model.web.address import MAX_URL_LENGTH, resolved, without_fragment

AT_ONCE: Final = 4
"""Requests of a page that are in flight at once: fewer than a browser opens to one host."""
_MOST_HOPS = 5
_MOST_NAMED = 20
"""Requisites that a result names as missing; further ones are counted."""
_SILENT = frozenset({"connection_lost", "dns", "refused", "timeout", "tls", "unreachable"})
"""Reasons after which another site is left alone for a minute, as after a refusal."""

LATE, UNKNOWN_ROBOTS = "late", "robots_unknown"
"""Reasons: the time of the page was over; the robots.txt of the origin was not known in time."""
_FOR_ANOTHER_PAGE = frozenset({Decision.CAPPED.value, LATE, UNKNOWN_ROBOTS})
"""Reasons for which requisites of styles are left to the next page of the run.

That page does not request the styles again, so it would not find them.
"""
_REASONS = frozenset({*map(str, Decision), LATE, UNKNOWN_ROBOTS})

log = structlog.get_logger()


class RobotsOfOrigins(Protocol):
    """Rules of all origins; see :mod:`crawling.robots.further`."""

    async def learn(self, page: Page, url: str) -> bool:
        """Wait until the rules for a URL are known; return False if they cannot be fetched."""
        ...

    def knows(self, page: Page, url: str) -> bool:
        """Return whether the rules for a URL are known."""
        ...


class Fetched(NamedTuple):
    """A response, unpacked, and the page that stands for its request."""

    response: Response
    lent: Page


class RequisiteClient(Protocol):
    """Requests requisites, and publishes them."""

    async def fetch(self, url: str, *, most_bytes: int, until: float) -> Fetched:
        """Return the response; raise as a download does, or GrantExpired.

        ``until``: when it is too late, by the monotonic clock.
        """
        ...

    async def publish(self, some: Sequence[Fetched]) -> Sequence[Exception | None]:
        """Publish responses together; return why any of them could not be. GivenUp."""
        ...

    def let_go(self, some: Iterable[Fetched]) -> None:
        """Forget responses that are published, or are not to be."""
        ...


@dataclass(frozen=True, slots=True, order=True)
class _Wanted:
    rank: int
    number: int
    url: str
    origin: str
    is_named: bool
    """True if the page itself names it: its rules are read if it is a stylesheet."""
    hops: int = 0
    is_left: bool = False
    """True if styles of an earlier page name it, which had no room for it."""


@dataclass(slots=True, kw_only=True)
class Loading:
    """Requests and publishes the requisites of one page.

    A few tasks send one request after the other. One more task publishes the responses that have
    arrived, several at once.
    """

    page: Page
    judge: Judge
    robots: RobotsOfOrigins
    known: KnownRequisites
    client: RequisiteClient
    reading: Callable[[Callable[[], list[Requisite]]], list[Requisite]]
    """Calls a function that parses a stranger's markup, which may take much CPU time."""
    most_bytes: int
    timeout_s: float
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _ended: asyncio.Future[None] | None = None
    """Done when no task is left, or one has failed."""
    _requesting: int = 0
    """Tasks that request."""
    _arrived: list[tuple[_Wanted, Fetched]] = field(default_factory=list)
    """Responses that are to be published."""
    _is_publishing: bool = False
    _until: float = 0.0
    _bytes: int = 0
    _came: int = 0
    _repeats: int = 0
    _number: int = 0
    _wanted: list[_Wanted] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _by_origin: defaultdict[str, list[_Wanted]] = field(default_factory=lambda: defaultdict(list))
    """Requisites that wait for the robots.txt of their origin."""
    _answered: set[str] = field(default_factory=set)
    """Sites that have answered."""
    _unknown: set[str] = field(default_factory=set)
    """Origins whose robots.txt was not known in time."""
    _missing: dict[str, str] = field(default_factory=dict)
    """Reason by URL of the requisites that are not archived."""

    async def run(self, found: Iterable[Requisite]) -> dict[str, object]:
        """Load all; return the field ``requisites`` of the page's result. GivenUp."""
        began = time.monotonic()
        self._until = began + self.timeout_s
        self._want(found, is_named=True)
        self._want(self.known.take(self._place), is_named=False, is_left=True)
        await self._all()
        for wanted in self._wanted:
            self._miss(wanted, LATE)
        missing = list(self._missing.items())
        return {
            "requests": self.judge.sent,
            "came": self._came,
            "known": self._repeats,
            "bytes": self._bytes,
            "ms": int((time.monotonic() - began) * 1000),
            "missing": [{"url": url, "why": why} for url, why in missing[:_MOST_NAMED]],
            "more_missing": max(len(missing) - _MOST_NAMED, 0),
        }

    @property
    def _place(self) -> Place:
        return (self.page.lease.crawl, self.page.lease.run), self.judge.site

    async def _all(self) -> None:
        self._begin()
        try:
            if self._tasks:
                self._ended = asyncio.get_running_loop().create_future()
                await self._ended
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._let_go(self._arrived, is_lost=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if self._ended is None or self._ended.done():
            return
        if error:
            self._ended.set_exception(error)
        elif not self._tasks:
            self._ended.set_result(None)

    def _begin(self) -> None:
        """Start tasks that request, up to ``AT_ONCE``."""
        while self._requesting < AT_ONCE and (wanted := self._next()):
            self._requesting += 1
            self._spawn(self._request_all(wanted))

    async def _request_all(self, wanted: _Wanted | None) -> None:
        """Request this requisite, and then others until none is left."""
        try:
            while wanted is not None:
                await self._load(wanted)
                wanted = self._next()
        finally:
            self._requesting -= 1

    def _next(self) -> _Wanted | None:
        """Return the next one to request; start to learn the robots.txt of unknown origins."""
        while self._wanted and time.monotonic() < self._until and self.page.is_open:
            wanted = heapq.heappop(self._wanted)
            if wanted.origin in self._unknown:
                self._miss(wanted, UNKNOWN_ROBOTS)
            elif self.robots.knows(self.page, wanted.url):
                return wanted
            elif why_not := self.judge.why_not(wanted.url):
                self._miss(wanted, why_not)
            else:
                self._by_origin[wanted.origin].append(wanted)
                if len(self._by_origin[wanted.origin]) == 1:
                    self._spawn(self._look(wanted.origin, wanted.url))
        return None

    async def _look(self, origin: str, url: str) -> None:
        """Learn the robots.txt of an origin; then its requisites are requested, or missing."""
        is_known = False
        try:
            async with asyncio.timeout(max(self._until - time.monotonic(), 0)):
                is_known = await self.robots.learn(self.page, url)
        except Exception as error:  # noqa: BLE001  without the rules nothing is requested
            log.info("requisites", outcome=UNKNOWN_ROBOTS, origin=origin, error=repr(error)[:200])
        if not is_known:
            self._unknown.add(origin)
        for wanted in self._by_origin.pop(origin):
            heapq.heappush(self._wanted, wanted)
        self._begin()

    def _want(
        self, found: Iterable[Requisite], *, is_named: bool, hops: int = 0, is_left: bool = False
    ) -> None:
        for one in found:
            if one.url in self._seen:
                continue
            self._seen.add(one.url)
            try:
                origin = origin_of(one.url)
            except InvalidUrl:
                continue
            self._number += 1
            wanted = _Wanted(one.rank, self._number, one.url, origin, is_named, hops, is_left)
            heapq.heappush(self._wanted, wanted)

    async def _load(self, wanted: _Wanted) -> None:
        url, (run, _) = wanted.url, self._place
        if not self.known.add(run, url):
            self._repeats += 1
            REQUISITES.labels("known").inc()
            return
        why: str = LATE
        try:
            why = await self._request(wanted)
        finally:
            if why:
                self.known.remove(run, url)
        if why:
            self._miss(wanted, why)

    async def _request(self, wanted: _Wanted) -> str:
        """Request one; return the reason if it failed, else an empty text. GivenUp."""
        most = (self.most_bytes - self._bytes) // AT_ONCE
        if most <= 0:
            return Decision.CAPPED
        verdict = await self.judge.verdict(FurtherRequest(wanted.url, TYPES[wanted.rank]))
        if verdict is not Decision.SENT:
            return verdict
        try:
            found = await self.client.fetch(wanted.url, most_bytes=most, until=self._until)
        except GrantExpired:
            return LATE
        except Exception as error:  # noqa: BLE001  whatever it is, the page goes on without it
            why = reason_of(error)
            if why in _SILENT:
                self._rest(wanted.url)
            return why
        response = found.response
        self._bytes += len(response.body)
        self._answered.add(self.judge.site_of(wanted.url))
        self.judge.answered(wanted.url, response.status)
        if response.status in RETRIED:
            self.client.let_go([found])
            return f"http_{response.status}"
        self._arrived.append((wanted, found))
        if not self._is_publishing:
            self._is_publishing = True
            self._spawn(self._publish_all())
        self._go_on(wanted, response)
        return ""

    async def _publish_all(self) -> None:
        """Publish responses until none waits; further requests are sent meanwhile."""
        while self._arrived:
            some, self._arrived = self._arrived, []
            await self._publish(some)
        self._is_publishing = False

    async def _publish(self, some: Sequence[tuple[_Wanted, Fetched]]) -> None:
        errors: Sequence[Exception | None] = ()
        try:
            errors = await self.client.publish([fetched for _, fetched in some])
        finally:
            self._let_go(some, is_lost=not errors)
        for (wanted, _), error in zip(some, errors, strict=True):
            if error is None:
                self._came += 1
                REQUISITES.labels("came").inc()
            else:
                log.warning("requisites", outcome="unpublished", error=repr(error)[:200])
                self.known.remove(self._place[0], wanted.url)
                self._miss(wanted, reason_of(error))

    def _let_go(self, some: Sequence[tuple[_Wanted, Fetched]], *, is_lost: bool) -> None:
        """Forget responses; those that are lost have to be requested again."""
        self.client.let_go(fetched for _, fetched in some)
        for wanted, _ in some if is_lost else ():
            self.known.remove(self._place[0], wanted.url)

    def _rest(self, url: str) -> None:
        """Let another site rest for a minute if it has answered no request for this page."""
        site = self.judge.site_of(url)
        if site != self.judge.site and site not in self._answered:
            self.judge.rests.note(site)

    def _go_on(self, wanted: _Wanted, response: Response) -> None:
        """Want what a response leads to: the target of a redirect, or requisites of styles."""
        if 300 <= response.status < 400 and wanted.hops < _MOST_HOPS:
            target = _target(response)
            found = [Requisite(wanted.rank, target)] if target else []
            self._want(found, is_named=wanted.is_named, hops=wanted.hops + 1)
        elif wanted.rank == STYLESHEET and wanted.is_named and response.status == 200:
            found = self.reading(lambda: requisites_of_styles(response))
            self._want(found, is_named=False)
        else:
            return
        self._begin()

    def _miss(self, wanted: _Wanted, why: str) -> None:
        if not wanted.is_named and why in _FOR_ANOTHER_PAGE:
            self.known.leave(self._place, Requisite(wanted.rank, wanted.url))
        if not wanted.is_left:
            REQUISITES.labels(why if why in _REASONS else "failed").inc()
            self._missing[wanted.url] = why


def _target(response: Response) -> str | None:
    """Return where a redirect leads to; None: nowhere."""
    location = response.headers.get(b"Location") or b""
    target = without_fragment(resolved(response.url, location) or "")
    return target if 0 < len(target) <= MAX_URL_LENGTH else None
