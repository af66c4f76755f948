"""Where the rooms are plugged into Scrapy: middlewares of both kinds, and the pipeline."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.downloadermiddlewares.httpcompression import ACCEPTED_ENCODINGS
from scrapy.exceptions import CloseSpider, DropItem, NotConfigured
from scrapy.http import Response

from crawling.engine.gathering import Gathering
from crawling.failures import BadEncoding, TooLarge
from crawling.lease.cpu_fairness import BODY_S_PER_BYTE
from crawling.lease.leases import Leases
from crawling.page.body_budget import BodyBudget
from crawling.page.directives import directives_of, obeys
from crawling.page.flight_recorder import FlightRecorder
from crawling.page.guard_notes import GuardNotes
from crawling.page.head import head_of
from crawling.page.page import Page
from crawling.page.rights import rights_of
from crawling.page.scrapy_request import PAGE, page_of
from crawling.parts import Parts
from crawling.publish.deadlines import page_at_hand, publishing, restore_callback
from crawling.publish.publisher import Publisher
from crawling.response.charset import with_charset
from crawling.response.codings import (
    MOST_CODINGS,
    Undecoded,
    codings_of,
    is_status_enough,
    undecoded,
    unpacked,
    without_codings,
)
from crawling.response.media_type import media_type
from crawling.response.outcome import Outcomes, PageEnded
from crawling.robots.lines import product_token
from crawling.robots.request import ROBOTS
from crawlstream.boot.failpoints import failpoint
from crawlstream.model.crawl import ANSWER_ACCEPTED
from crawlstream.model.result import CrawlResult
from crawlstream.model.web.directives import ban_of
from crawlstream.model.web.guard_mode import GuardMode, guard_mode

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


_ACCEPTED = b", ".join(ACCEPTED_ENCODINGS)


class OutcomeMiddleware:
    """The outermost downloader middleware: sees a response when the others are done with it."""

    def __init__(self, outcomes: Outcomes, recorder: FlightRecorder) -> None:
        self._outcomes = outcomes
        self._recorder = recorder

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> OutcomeMiddleware:
        """Scrapy's way to make one."""
        parts = Parts.of(crawler)
        kind = DocumentMiddleware if parts.outcomes.documents else cls
        return kind(parts.outcomes, parts.recorder)

    async def process_response(self, request: Request, response: Response) -> Response:
        """Let through what is for the spider."""
        page: Page | None = request.meta.get(PAGE)
        if page is not None and ROBOTS not in request.meta:
            failpoint("after_fetch")
            response = with_charset(response)
            response.request = request
            await self._outcomes.judge(page, response)
            if page.lease.profile.render is not None:
                self._look(page, response)
            self._read_directives(page, request, response)
        return response

    def _look(self, page: Page, response: Response) -> None:
        """Compare a page with its document, or hand it over to a browser."""
        with self._recorder.noting(page):
            goes_on = self._outcomes.look(page, response)
        if not goes_on:
            raise PageEnded

    def _read_directives(self, page: Page, request: Request, response: Response) -> None:
        agent = (request.headers.get(b"User-Agent") or b"").decode("latin-1")
        settings, profile = self._outcomes.settings, page.lease.profile
        with self._recorder.noting(page):
            head, purpose = head_of(response), profile.purpose or settings.purpose
            page.directives = directives_of(response, product_token(agent), head)
            page.rights = rights_of(response, head, page.site_says, purpose)
        mode = guard_mode(profile.guard, settings.guard, settings.guard_most)
        page.is_watched = mode is not GuardMode.OFF
        page.guard = GuardNotes() if mode is GuardMode.ON else None
        page.obeys_directives = obeys(settings.directives, profile.directives)
        obeyed = {*settings.drop, *(profile.drop or ())}
        page.dropped = ban_of(page.directives.texts, obeyed, page.received_at, page.rights)


class DocumentMiddleware(OutcomeMiddleware):
    """As ``OutcomeMiddleware``; reads the links of documents as well."""

    async def process_response(self, request: Request, response: Response) -> Response:
        """Let through what is for the spider."""
        response = await super().process_response(request, response)
        page: Page | None = request.meta.get(PAGE)
        documents = self._outcomes.documents
        if page is not None and documents is not None and ROBOTS not in request.meta:
            mime = media_type(response.headers).essence
            await documents.read(page, mime, response.url, response.body)
        return response


class WatchedCompression:
    """Decompresses bodies within a budget, noted by the flight recorder."""

    def __init__(self, most: int, recorder: FlightRecorder, body_budget: BodyBudget) -> None:
        """``most`` bytes a body may have when it is decompressed."""
        self._most = most
        self._recorder = recorder
        self._body_budget = body_budget

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> WatchedCompression:
        """Scrapy's way to make one."""
        if not crawler.settings.getbool("COMPRESSION_ENABLED"):
            raise NotConfigured
        parts = Parts.of(crawler)
        most = crawler.settings.getint("DOWNLOAD_MAXSIZE")
        return cls(most, parts.recorder, parts.body_budget)

    def process_request(self, request: Request) -> None:
        """Say what can be decompressed."""
        request.headers.setdefault(b"Accept-Encoding", _ACCEPTED)

    async def process_response(self, request: Request, response: Response) -> Request | Response:
        """Decompress; TooLarge and BadEncoding say why not, unless the status says enough."""
        page: Page | None = request.meta.get(PAGE)
        is_plain = b"Content-Encoding" not in response.headers
        if page is None or is_plain or request.method == "HEAD" or isinstance(response, Undecoded):
            return response
        codings = codings_of(response)
        if not codings:
            return unpacked(response)
        try:
            return await self._plain(page, response, codings)
        except (BadEncoding, TooLarge) as problem:
            if not is_status_enough(response.status, is_robots=ROBOTS in request.meta):
                raise
            if isinstance(problem, TooLarge):
                page.cpu_s += self._most * BODY_S_PER_BYTE
            return undecoded(response, problem)

    async def _plain(self, page: Page, response: Response, codings: Sequence[bytes]) -> Response:
        if len(codings) > MOST_CODINGS:
            raise BadEncoding(f"{len(codings)} nested content encodings")
        await self._body_budget.turn(page)
        with self._recorder.noting(page):
            plain = self._decompress(response, codings)
        if page.is_open:
            coded = len(response.body) if page.as_sent else 0
            self._body_budget.weigh(page, len(plain.body) + coded)
        return plain

    def _decompress(self, response: Response, codings: Sequence[bytes]) -> Response:
        try:
            return without_codings(response, codings, self._most)
        except TooLarge as error:
            problem: Exception = TooLarge(str(error))
        except Exception as error:  # noqa: BLE001  raised below, as another
            problem = BadEncoding(str(error))
        # Out here, where the traceback with what was decompressed so far has gone.
        raise problem


class OutlinksMiddleware:
    """The outermost spider middleware: takes the children out, counts the items that pass."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._parts = Parts.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> OutlinksMiddleware:
        """Scrapy's way to make one."""
        return cls(crawler)

    def process_spider_input(self, response: Response) -> None:
        """Note whose response it is, for spider and pipelines, and on the CPU for its callback."""
        page, request = page_of(response), response.request
        page_at_hand.set(page)
        if request is not None:
            request.callback = partial(self._call, page, request.callback)

    def _call(self, page: Page, own: Any, response: Response, **named: Any) -> Any:
        restore_callback(response, own)
        spider = self._crawler.spider
        assert spider is not None
        callback = own or spider._parse  # noqa: SLF001  as Scrapy does
        return self._parts.recorder.call(page, callback, response, **named)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Pass the items on; the page ends when they have left the pipelines."""
        page, recorder = page_of(response), self._parts.recorder
        gathering = Gathering(page, response, self._parts, self._crawler.spider)
        try:
            steps = self._parts.deadlines.steps(page, result)
            async for each in recorder.watched(page, steps):
                with recorder.noting(page):
                    item = gathering.take(each)
                if item is not None:
                    yield item
        finally:
            gathering.stop()
        gathering.complete()

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """A page cannot end the process: others would meet it, and end as well."""
        if isinstance(exception, CloseSpider):
            raise TypeError(
                "CloseSpider is not supported: a cluster spider ends only with its process"
            ) from exception


class ResultPipeline:
    """Publishes results, and lets an item leave when Kafka has acknowledged it."""

    def __init__(
        self, leases: Leases, publisher: Publisher, parts: Parts, *, is_alone: bool
    ) -> None:
        """``is_alone``: no pipeline of a user is there to take items of another kind."""
        self._answers = parts.endings.answers
        self._leases = leases
        self._publisher = publisher
        self._bring_requisites = parts.bring_requisites
        self._is_alone = is_alone

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ResultPipeline:
        """Scrapy's way to make one."""
        pipelines = crawler.settings.get_component_priority_dict_with_base("ITEM_PIPELINES")
        enabled = sum(order is not None for order in pipelines.values())
        parts = Parts.of(crawler)
        return cls(parts.leases, parts.publisher, parts, is_alone=enabled == 1)

    async def process_item(self, item: Any) -> Any:
        """Publish one; GivenUp only where the worker is about to end."""
        if not isinstance(item, CrawlResult):
            if not self._is_alone:
                return item
            raise TypeError(
                f"{type(item).__name__} is not a result, and no pipeline of yours handles it:"
                " yield self.result(response, attrs=...)"
            )
        page = self._leases.by_id(item.id)
        if page is None or not page.is_open:
            raise DropItem("the lease of this page was revoked")
        with publishing(page):
            if page.lease.profile.requisites:
                item = await self._bring_requisites(page, item)
            if page.lease.profile.answer != ANSWER_ACCEPTED and page.is_asked_for:
                await self._answers.publish(page, item)
            else:
                await self._publisher.result(item)
        failpoint("after_publish")
        page.body_bytes = len(item.body) if item.body_size is None else item.body_size
        return item
