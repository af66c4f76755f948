"""Run a spider on a page in a test with the code of a worker, without server or download.

    front = crawl_page(Products, "http://shop.example/", "<a class=product href=/1>", request=SEED)
    item = crawl_page(Products, front.outlinks[0], "<b class=price>9.99</b>", request=SEED)

The request is checked as if it was fed. The response passes all middlewares, and the callback's
items pass all pipelines. Checks that need the cluster are left out: robots.txt, throttle rules, and
duplicates and page limits of the outlinks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from scrapy import Request, Spider, signals
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.scraper import Scraper
from scrapy.http import Headers, Response
from scrapy.settings import BaseSettings
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.test import get_crawler
from twisted.python.failure import Failure

from crawling.addon import ClusterAddon, add_components
from crawling.background import Tasks
from crawling.engine.downloader import granted
from crawling.page.page import Page
from crawling.response.media_type import class_of
from crawling.response.site_feedback import reaction_to
from crawling.runtime.assembly import assemble
from crawling.runtime.clients import Clients
from crawling.runtime.preemption import Watcher
from crawling.runtime.request_source import request_of
from crawling.runtime.worker import Worker
from crawling.spiders.base import require_cluster_spider
from crawlstream.bus.records import Out, Record
from crawlstream.model.crawl import Entry, Lease
from crawlstream.model.effects import Links, Settle
from crawlstream.model.event import RecordPlace
from crawlstream.model.process import Process
from crawlstream.model.request import RequestLimits
from crawlstream.model.result import CrawlResult
from crawlstream.model.url import domain_key, host_of
from crawlstream.plugins.seeds import seed_fed
from crawlstream.stats.tally import Tally
from crawlstream.tasks import run_to_end
from crawlstream.wire import jsontext
from crawlstream.wire.stored import decode_entry

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

__all__ = ["CrawledPage", "Outlink", "crawl_page", "spider_from"]

_LAST_WORDS_S = 10.0
_OF_THE_PROCESS = ("TWISTED_REACTOR", "ASYNCIO_EVENT_LOOP")


@dataclass(frozen=True, slots=True)
class Outlink:
    """A request found on a page; pass it to :func:`crawl_page` to crawl the next page."""

    url: str
    callback: str | None = None
    """Name of the spider's method that takes the response; None: ``parse``."""
    meta: Mapping[str, object] = field(default_factory=dict)
    depth: int = 1
    parent_url: str | None = None
    redirect_urls: tuple[str, ...] = ()
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    cookies: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    spiderid: str | None = None
    """Spider of the request; None: the spider of the page."""
    seed_url: str | None = None
    """Seed below which it was found; None: it is treated as a seed."""
    moved_to: str | None = None
    """Host to which its seed has moved, outside of the crawl's ``allowed_domains``."""


_OF_ENTRIES = {each.name for each in fields(Outlink)} - {"priority", "spiderid", "seed_url"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawledPage:
    """Result of a page."""

    outcome: str
    """``done``, ``failed``, ``redirected``, or ``retried`` if it would be fetched again."""
    results: Sequence[Mapping[str, Any]]
    """The JSON objects on ``<prefix>.crawled_firehose``, as in ``docs/wire.md``."""
    failure: Mapping[str, Any] | None
    """The event ``page_failed`` with ``reason`` and ``detail``, if there is one."""
    outlinks: Sequence[Outlink]
    """Requests that would be sent to the frontier; for a redirect its target."""
    filtered: Mapping[str, int]
    """Number of dropped links and requests, by reason (``depth``, ``domain``, ``regex`` …)."""
    items: Sequence[Any]
    """Items other than results, after all pipelines."""


def crawl_page(
    spider: type[Spider],
    page: str | Outlink,
    body: str | bytes | Path = "",
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    request: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | ModuleType | None = None,
) -> CrawledPage:
    """Run a spider class on a page and return the result.

    ``page`` is the URL of a seed, or an :class:`Outlink`. ``body`` is text (sent as UTF-8), bytes,
    or a file; without ``headers`` it is HTML. ``request`` has fields of a crawl request, such as
    ``attrs``, ``maxdepth`` and ``allowed_domains``. ``settings`` are those of the Scrapy project,
    as a module or a mapping: its pipelines and middlewares are run.

    InvalidRequest and InvalidUrl: kafka-monitor would refuse the request. ConfigError: not a
    cluster spider. An exception of a callback or a pipeline is in ``failure`` and in the log.
    """
    given = page if isinstance(page, Outlink) else None
    url = given.seed_url or given.url if given else page
    asked = {"url": url, "appid": "test", "crawlid": "test", **(request or {})}
    answer = _Answer(status, headers, body)
    crawler = _crawler_of(spider, settings)
    asked["spiderid"] = spider.name
    return run_to_end(_crawl(crawler, asked, given, answer))


def spider_from(
    spider: type[Spider],
    settings: Mapping[str, Any] | ModuleType | None = None,
    **arguments: Any,
) -> Spider:
    """Return a spider object with settings and crawler, as in a worker, to test its methods."""
    return spider.from_crawler(_crawler_of(spider, settings), **arguments)


class _Addon(ClusterAddon):
    """The cluster's settings, except those that need servers or belong to the test's process."""

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        kept = {name: settings[name] for name in _OF_THE_PROCESS}
        super().update_pre_crawler_settings(settings)
        for name, value in kept.items():
            settings.set(name, value, "cmdline")

    def update_settings(self, settings: BaseSettings) -> None:
        add_components(settings)
        for extension in (Worker, Watcher):
            settings.set_in_component_priority_dict("EXTENSIONS", extension, None)


def _crawler_of(spider: type[Spider], settings: Mapping[str, Any] | ModuleType | None) -> Crawler:
    require_cluster_spider(spider)
    given = vars(settings) if isinstance(settings, ModuleType) else settings or {}
    project = {name: value for name, value in given.items() if name.isupper()}
    return get_crawler(spider, {**project, "ADDONS": {_Addon: 0}})


@dataclass(frozen=True, slots=True)
class _Answer:
    """The server's response that the test specifies."""

    status: int
    headers: Mapping[str, str] | None
    body: str | bytes | Path

    def response(self, url: str) -> Response:
        """Return the response as a worker makes it."""
        charset, body = "", self.body
        if isinstance(body, Path):
            body = body.read_bytes()
        elif isinstance(body, str):
            charset, body = "; charset=utf-8", body.encode()
        given = self.headers
        headers = Headers({"Content-Type": f"text/html{charset}"} if given is None else given)
        kind = class_of(headers, url, body)
        return kind(url, status=self.status, headers=headers, body=body)


class _Kept:
    """Takes records as Kafka does."""

    def __init__(self) -> None:
        self.records: list[Out] = []

    async def send(self, records: Sequence[Out]) -> Sequence[int]:
        """Acknowledge all of them."""
        self.records += records
        return range(len(self.records) - len(records), len(self.records))

    async def place(self, record: Out) -> RecordPlace:
        """Acknowledge one."""
        (offset,) = await self.send([record])
        return RecordPlace(record.topic, 0, offset)


async def _crawl(
    crawler: Crawler, asked: Mapping[str, Any], given: Outlink | None, answer: _Answer
) -> CrawledPage:
    return await _Trial(crawler).run(asked, given, answer)


class _Trial:
    """The parts of a worker without leases, and the parts of Scrapy around them."""

    def __init__(self, crawler: Crawler) -> None:
        settings = self._settings = crawler.settings["CRAWLSTREAM"]
        process = Process(kind="crawler", spider=crawler.spidercls.name)
        self._kept, self._tasks = _Kept(), Tasks(lambda: None)
        clients = Clients.of(settings, worker=process.name, spiderid=process.spider)
        self._clients = replace(clients, sink=self._kept)  # type: ignore[arg-type]
        tally = Tally(clients.redis, settings.keys)
        made = assemble(crawler, process, self._clients, tally=tally, tasks=self._tasks)
        made.begin_to_end()  # Nothing is leased.
        self._parts = made.parts
        self._parts.belong_to(crawler)
        self._parts.endings.listen(crawler)
        self._items: list[Any] = []
        crawler.signals.connect(self._keep, signals.item_scraped)
        self._crawler = crawler

    def _keep(self, item: Any) -> None:
        if not isinstance(item, CrawlResult):
            self._items.append(item)

    async def run(
        self, fields: Mapping[str, Any], given: Outlink | None, answer: _Answer
    ) -> CrawledPage:
        """Process one page."""
        crawler = self._crawler
        spider = crawler.spider = crawler.spidercls.from_crawler(crawler)
        middlewares, scraper = DownloaderMiddlewareManager.from_crawler(crawler), Scraper(crawler)
        await crawler.signals.send_catch_log_async(signals.spider_opened, spider=spider)
        await scraper.open_spider_async()
        lease = _lease(fields, given, self._settings.request_limits)
        self._parts.leases.note_answer(0, lease.issued_at, 1)
        page = self._parts.leases.admit(lease)
        request = request_of(page, spider, self._parts.outcomes)
        if request is not None:
            came = await self._download(middlewares, request, page, answer)
            await maybe_deferred_to_future(scraper.enqueue_scrape(came, request))
        await scraper.close_spider_async()
        await crawler.signals.send_catch_log_async(
            signals.spider_closed, spider=spider, reason="finished"
        )
        await self._tasks.finish(_LAST_WORDS_S)
        await self._clients.close()
        return self._crawled(page)

    async def _download(
        self,
        middlewares: DownloaderMiddlewareManager,
        request: Request,
        page: Page,
        answer: _Answer,
    ) -> Response | Failure:
        """Return the downloader's response; middlewares may replace the request."""
        leases = self._parts.leases

        async def send(sent: Request) -> Response:
            leases.set_out(page, sent.url)
            leases.depart(page)
            response = answer.response(sent.url)
            leases.receive(page, reaction_to(response))
            return response

        came: Response | Request = request
        try:
            while isinstance(came, Request):
                asked = came
                came = granted(await middlewares.download_async(send, asked), asked, leases)
        except Exception:  # noqa: BLE001  the errback's
            return Failure()
        came.request = asked
        return came

    def _crawled(self, page: Page) -> CrawledPage:
        topics = self._settings.topics
        told = {
            topic: [
                jsontext.loads(each.value) for each in self._kept.records if each.topic == topic
            ]
            for topic in (topics.crawled, topics.events)
        }
        (end,) = self._parts.leases.of(0).take_report().ends
        groups = end.links if isinstance(end, Settle) else ()
        return CrawledPage(
            outcome=end.outcome.value if isinstance(end, Settle) else "retried",
            results=cast(list[dict[str, Any]], told[topics.crawled]),
            failure=cast(dict[str, Any], next(iter(told[topics.events]), None)),
            outlinks=[
                _outlink(entry, group, page.lease) for group in groups for entry in group.entries
            ],
            filtered=dict(page.filtered),
            items=self._items,
        )


def _lease(fields: Mapping[str, Any], given: Outlink | None, limits: RequestLimits) -> Lease:
    """Return the lease that the frontier would grant for a fed seed or a page below it."""
    record = Record("test.incoming", 0, 0, int(time.time() * 1000), None, None)
    seed = seed_fed(fields, record, limits)
    entry, priority, domain = decode_entry(seed.entry), seed.priority, seed.domain
    if given is not None:
        entry = Entry(**{name: getattr(given, name) for name in _OF_ENTRIES})
        priority, domain = given.priority, domain_key(host_of(given.url))
    return Lease(
        token="1-1",  # noqa: S106  no secret
        crawl=seed.crawl,
        run=1,
        domain=domain,
        priority=priority,
        entry=entry,
        profile=seed.profile,
        retries=0,
        issued_at=time.monotonic(),
    )


def _outlink(stored: bytes, group: Links, parent: Lease) -> Outlink:
    entry = decode_entry(stored)
    named = {name: getattr(entry, name) for name in _OF_ENTRIES}
    seed_url = parent.profile.seed_url or parent.entry.url
    return Outlink(**named, priority=group.priority, spiderid=group.spiderid, seed_url=seed_url)
