"""The fetch lane by itself: sites, libcurl and spiders are real; nothing leases and no Kafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from scrapy import Spider
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.scraper import Scraper

from crawling.background import Tasks
from crawling.client.client_of import client_of
from crawling.lane.lane import Lane
from crawling.net.address_guard import GuardedResolver
from crawling.page.flight_recorder import FlightRecorder
from crawling.page.page import Page
from crawling.runtime.assembly import assemble
from crawling.runtime.clients import Clients
from crawling.runtime.request_source import request_of
from crawling.testing import spider_from
from crawlstream.boot.addresses import Guard
from crawlstream.bus.records import Out
from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.egress.pools import PoolTable
from crawlstream.model.process import Process
from crawlstream.stats.tally import Tally
from crawlstream.wire import jsontext
from support.crawler.leases import lease
from support.crawler.visitor import LOCAL


class Acknowledging:
    """Kafka as its process sees it: takes records once the test lets it."""

    def __init__(self) -> None:
        self.asked: list[Out] = []
        self.acknowledged: list[Out] = []
        self.is_there = asyncio.Event()
        self.is_there.set()

    async def send(self, records: Sequence[Out]) -> None:
        """As ``KafkaSink.send``."""
        self.asked += records
        await self.is_there.wait()
        self.acknowledged += records

    @property
    def told(self) -> list[dict[str, Any]]:
        """Records in Kafka."""
        return [jsontext.loads(each.value) for each in self.acknowledged]  # type: ignore[misc]


class LaneBench:
    """The parts of a worker that nothing is leased for, and its lane."""

    def __init__(self, spider: type[Spider], folder: Path) -> None:
        made = spider_from(spider)
        crawler = self._crawler = made.crawler
        crawler.spider = made
        ours = crawler.settings["CRAWLSTREAM"]
        process = Process(kind="crawler", spider=spider.name)
        self.kafka, self.tasks = Acknowledging(), Tasks(lambda: None)
        self._clients = Clients.of(ours, worker=process.name, spiderid=process.spider)
        clients = replace(self._clients, sink=self.kafka)  # type: ignore[arg-type]
        tally = Tally(clients.redis, ours.keys)
        assembly = assemble(crawler, process, clients, tally=tally, tasks=self.tasks)
        assembly.begin_to_end()  # Nothing is leased.
        self.way = assembly.way
        """Knows the lane of this bench."""
        self.recorder = FlightRecorder(folder / "recorder", spider.name)
        self.parts = replace(assembly.parts, recorder=self.recorder)
        self.parts.routes.known.table = PoolTable()  # Without a Redis, no other process sets it.
        self.parts.belong_to(crawler)
        self.parts.endings.listen(crawler)
        self._granted = 0

    async def open(self) -> None:
        """Create the objects that Scrapy's engine creates."""
        crawler = self._crawler
        downloads = DownloaderMiddlewareManager.from_crawler(crawler)
        scraper = Scraper(crawler)
        crawler.engine = SimpleNamespace(  # type: ignore[assignment]
            downloader=SimpleNamespace(middleware=downloads),
            scraper=scraper,
            needs_backout=lambda: False,
        )
        await scraper.open_spider_async()
        self.recorder.open("worker")
        self.lane = Lane(crawler, client_of(crawler, GuardedResolver(Guard(LOCAL), None)))
        self.way._lane = self.lane  # As ``choose`` does, which asks the whole of Scrapy.

    async def close(self) -> None:
        """Wait until nothing is in flight."""
        self.kafka.is_there.set()
        await self.lane.finish()
        await self.tasks.finish(5)
        self.lane.close()
        self.recorder.close()
        await self._clients.close()

    def start(self, url: str, *, retries: int = 0, **entry: Any) -> Page:
        """A page that has just been leased, on its way."""
        self._granted += 1
        now = time.monotonic()
        self.parts.leases.note_answer(0, now, 1)
        granted = lease(
            self._granted,
            entry=Entry(url=url, **entry),
            profile=Profile(seed_url=url, maxdepth=1),
            issued_at=now,
            retries=retries,
        )
        page = self.parts.leases.admit(granted)
        spider = self._crawler.spider
        assert spider is not None
        request = request_of(page, spider, self.parts.outcomes)
        assert request is not None
        self.lane.start(page, request)
        return page

    async def end_of(self, url: str, **granted: Any) -> Page:
        """Fetch a page, and return it when the lane has finished it."""
        page = self.start(url, **granted)
        await self.lane.finish()
        await self.tasks.finish(5)
        return page

    def ends(self) -> list[Any]:
        """Reports for the frontier: settles, requeues and releases."""
        return list(self.parts.leases.of(0).take_report().ends)


@asynccontextmanager
async def in_the_lane(spider: type[Spider], folder: Path) -> AsyncIterator[LaneBench]:
    """A lane for the length of the block."""
    bench = LaneBench(spider, folder)
    await bench.open()
    try:
        yield bench
    finally:
        await bench.close()
