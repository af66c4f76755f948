"""The worker: one execution of a crawler process, from its first heartbeat to its last.

This Scrapy extension opens the frontier, the sink to Kafka and the flight recorder before the first
request, extends the worker's deadline independent of the pages, and releases all its leases at the
end.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING

import structlog
from scrapy import Spider, signals
from scrapy.exceptions import CloseSpider

from crawling.background import Tasks
from crawling.metrics import HOLDS, PAGES
from crawling.runtime.assembly import assemble
from crawling.runtime.clients import Clients
from crawling.runtime.recycling import LOOK_EVERY_S, Lifetime, resident_bytes
from crawling.runtime.rendering import Rendering
from crawling.spiders.base import require_cluster_spider
from crawlstream.boot import health
from crawlstream.boot.garbage import collect_seldom, return_large_blocks
from crawlstream.boot.metrics import total_of
from crawlstream.boot.settings import Settings
from crawlstream.boot.startup import until_ready
from crawlstream.boot.variables import values_of
from crawlstream.errors import ConfigError
from crawlstream.model.egress.render import lane_of
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat, Work
from crawlstream.stats.tally import Tally

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

SHARED = (
    "clean_param",
    "directives",
    "documents",
    "drop",
    "drop_parameters",
    "guard",
    "guard_most",
    "guard_neighbours",
    "keep_parameters",
    "purpose",
    "retry_times",
    "rights_files",
    "robotstxt_obey",
    "scheduler_backlog_blacklist",
    "signature_agent",
    "signature_form",
    "sitemap_files",
    "tls_profiles",
    "visit_time",
)
"""Settings by which any crawler of a spider must treat a page alike."""
SHARED_BY_RENDERERS = ("render_types", "render_requests")
_LAST_WORDS_S = 10.0
"""Seconds to retry the last reports to a service that does not answer."""

log = structlog.get_logger()


class Worker:
    """Runs one crawler process from start to end."""

    refusal = ""
    """Error in the settings because of which the worker cannot start, if there is one."""

    def __init__(self, crawler: Crawler) -> None:
        settings = self._settings = crawler.settings["CRAWLSTREAM"]
        process = Process(
            kind="crawler",
            spider=lane_of(crawler.spidercls.name, renders=settings.render),
            values=values_of(settings, *SHARED, *(SHARED_BY_RENDERERS if settings.render else ())),
        )
        self.name = process.name
        self.is_broken = False
        """True if the worker ended because one of its parts failed."""
        self._crawler = crawler
        self._clients = Clients.of(settings, worker=process.name, spiderid=process.spider)
        self._tally = Tally(self._clients.redis, settings.keys)
        self._heartbeat = Heartbeat(
            *self._clients.frontiers.heartbeats[0],
            process,
            work=lambda: Work(total_of(PAGES), int(total_of(HOLDS))),
            drain=lambda: self.leave("asked"),
            also=self._clients.frontiers.heartbeats[1:],
        )
        self._tasks = Tasks(self._break)
        made = assemble(crawler, process, self._clients, tally=self._tally, tasks=self._tasks)
        self._parts, self._sessions, self._begin_to_end = (
            made.parts,
            made.sessions,
            made.begin_to_end,
        )
        self._way, self._spans = made.way, made.spans
        self._rendering = Rendering(settings, process.spider, made) if settings.render else None
        self._lifetime = Lifetime(settings.memory_limit_mb << 20, settings.max_age_s)
        self._closing: asyncio.Future[None] | None = None
        self._health = AsyncExitStack()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Worker:
        """Create the extension for Scrapy, which creates middlewares and pipelines later."""
        worker = cls(crawler)
        worker._parts.belong_to(crawler)
        worker._parts.endings.listen(crawler)
        crawler.signals.connect(worker._opened, signals.spider_opened)
        crawler.signals.connect(worker._closed, signals.spider_closed)
        return worker

    async def _opened(self, spider: Spider) -> None:
        try:
            require_cluster_spider(type(spider))
            logging.getLogger(spider.name).setLevel(self._settings.log_level)
            await self._open()
        except Exception as error:
            self.is_broken = True
            self.refusal = str(error) if isinstance(error, ConfigError) else ""
            await self._heartbeat.withdraw()
            trace = None if self.refusal else error
            log.critical("start", outcome="failed", error=str(error), exc_info=trace)
            raise CloseSpider("broken") from error
        collect_seldom()
        return_large_blocks()
        for reason in self._settings.contradictions:
            log.warning("start", outcome="contradiction", reason=reason)
        log.info("start", worker=self.name, spider=spider.name)

    async def _open(self) -> None:
        settings: Settings = self._settings
        await self._clients.wait_for_redis(settings)
        await until_ready("redis", self._heartbeat.join)
        await self._clients.wait_for_kafka(settings)
        await self._health.enter_async_context(self._serve_health(settings))
        for crash in self._parts.recorder.open(self.name):
            await self._sessions.blame(crash)
        if self._rendering:
            await self._rendering.open()
            self._tasks.keep(self._rendering.follow())
        await self._parts.blacklist.look()
        await self._parts.routes.known.look()
        await self._sessions.start(self._tasks, self._look_at_engine)
        self._tasks.keep(self._leave_in_time())
        self._tasks.keep(self._parts.blacklist.follow())
        self._tasks.keep(self._parts.routes.known.follow())
        self._tasks.keep(self._parts.routes.patience.follow())
        self._tasks.keep(self._parts.routes.shared.follow())
        if waste := self._parts.endings.waste:
            self._tasks.keep(waste.run())
        self._tasks.keep(self._tally.run())
        self._tasks.keep(self._heartbeat.run())

    def _serve_health(self, settings: Settings) -> AbstractAsyncContextManager[None]:
        """Serve health on the port that supervisord's listener checks; without supervisord, any."""
        return health.serve(
            settings.metrics_port,
            self._check,
            host=settings.metrics_host,
            or_any_port="SUPERVISOR_ENABLED" not in os.environ,
        )

    def _look_at_engine(self) -> None:
        if not self._crawler.engine.running:
            self._begin_to_end()

    async def _closed(self) -> None:
        """Send the last reports, and release the remaining leases."""
        self._begin_to_end()
        await self._way.finish()
        await self._tasks.finish(_LAST_WORDS_S)
        await self._sessions.finish(_LAST_WORDS_S)
        await self._tasks.stop()
        self._way.close()
        if documents := self._parts.outcomes.documents:
            await documents.close()
        if self._rendering:
            await self._rendering.close()
        await self._sessions.retire(self.name)
        await self._clients.sink.stop()
        if self._spans:
            await asyncio.to_thread(self._spans.close)
        self._parts.recorder.close()
        await self._health.aclose()
        await self._clients.close()
        if self.is_broken:
            # So `scrapy crawl` does not end with 0.
            self._crawler.spider = None

    def _break(self) -> None:
        """End, so that a supervisor restarts the process."""
        if not self.is_broken:
            self.is_broken = True
            # Not one of the tasks: closing waits for them, and must not wait for itself.
            close = self._crawler.engine.close_spider_async(reason="broken")
            self._closing = asyncio.ensure_future(close)

    async def _leave_in_time(self) -> None:
        """End as on SIGTERM after the limit of memory or age is passed."""
        reason = ""
        while not reason:
            await asyncio.sleep(LOOK_EVERY_S)
            reason = self._lifetime.over()
        self.leave(reason)

    def leave(self, reason: str, *, within_s: float = math.inf) -> None:
        """End as on SIGTERM: lease no more pages, finish the downloads, release the other pages.

        Pages still in flight after ``within_s`` seconds are released as well.
        """
        log.info("stop", outcome="drains", reason=reason, resident_mb=resident_bytes() >> 20)
        self._begin_to_end()
        if within_s < math.inf:
            asyncio.get_running_loop().call_later(within_s, self._give_back)
        self._closing = asyncio.ensure_future(self._crawler.stop_async())

    def _give_back(self) -> None:
        leases = self._parts.leases
        log.warning("release", outcome="out_of_time", pages=len(leases))
        leases.release_all()

    def _check(self) -> health.Health:
        leases, waiting_for = self._parts.leases, self._parts.publisher.waits_for
        if not leases.is_in_contact:
            waiting_for = "redis"
        return health.Health(waiting_for=waiting_for, details={"holds": len(leases)})
