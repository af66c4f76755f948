"""The worker: one incarnation of a crawler process, from its first beat to its last.

As a Scrapy extension it opens the frontier, the sink to Kafka and the flight recorder before the
first request, keeps the worker's deadline moving whatever the pages do, and gives back everything
that Redis holds for it at the end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider
from scrapy.http import Response

from crawling.background import Tasks
from crawling.lease.holds import GrantExpired, Holds
from crawling.links.blacklist import Blacklist
from crawling.links.traps import Traps
from crawling.metrics import Meter
from crawling.page.flight_recorder import Recorder
from crawling.page.page import Page, Phase
from crawling.page.request import to_scrapy
from crawling.publish.completion import Endings
from crawling.publish.publisher import Publisher
from crawling.publish.spill import Spiller
from crawling.response.outcome import Outcomes
from crawling.robots.check import Robots
from crawling.robots.store import RobotsBook
from crawling.runtime.lease_loop import Feeder
from crawling.runtime.recycling import LOOK_EVERY_S, Lifetime, resident_bytes
from crawlstream.boot import health
from crawlstream.boot.clients import blocking_redis, redis_client
from crawlstream.boot.garbage import collect_seldom, return_large_blocks
from crawlstream.boot.redis_check import check_redis
from crawlstream.boot.retry import until_ready
from crawlstream.boot.settings import Settings
from crawlstream.boot.variables import told
from crawlstream.bus.sink import KafkaSink
from crawlstream.errors import ConfigError, RedisUnavailable
from crawlstream.frontier.frontier import Frontier
from crawlstream.frontier.wake import Sleeper
from crawlstream.keys import encode_id
from crawlstream.stats.heartbeat import Heartbeat, Process
from crawlstream.stats.tally import Tally

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

SHARED = ("RETRY_TIMES", "ROBOTSTXT_OBEY", "SCHEDULER_BACKLOG_BLACKLIST")
"""Settings by which any crawler of a spider must treat a page alike."""
BEAT_EVERY_S = 5.0
RESULTS_LINGER_MS = 160
"""Pages come one by one; nobody waits for one of them but its own settle."""
_BEATS_A_RECONCILE = 6
_BEAT_AGAIN_S = 1.0
_LAST_WORDS_S = 10.0
"""How long what is still to be told is repeated to a service that does not answer."""

log = structlog.get_logger()


class Worker:
    """The parts of one crawler process, and its life."""

    refusal = ""
    """Why it cannot work with its settings, if it cannot."""

    def __init__(self, crawler: Crawler) -> None:
        settings: Settings = crawler.settings["CRAWLSTREAM"]
        keys = self._keys = settings.keys
        self._crawler = crawler
        self._settings = settings
        values = told(settings, *SHARED)
        self._process = Process(kind="crawler", spider=crawler.spidercls.name, values=values)
        self.name = self._process.name
        self.is_broken = False
        """Whether it ended because one of its parts failed."""
        self._redis = redis_client(settings)
        self._waiting_redis = blocking_redis(settings)
        self._frontier = Frontier(self._redis, keys, group=settings.egress_group)
        self._sink = _sink(settings, self._process.spider)
        self._tally = Tally(self._redis, keys)
        self._meter = Meter(self._process.spider, settings.CONCURRENT_REQUESTS)
        self._heartbeat = Heartbeat(self._redis, keys, self._process)
        self._sleeper = Sleeper(self._waiting_redis, keys, self.name)
        self._tasks = Tasks(self._break)
        self._lifetime = Lifetime(settings.memory_limit_mb << 20, settings.max_age_s)
        self._closing: asyncio.Future[None] | None = None
        self.recorder = Recorder(Path(settings.home) / "recorder", encode_id(self._process.spider))
        self.publisher = Publisher(self._sink, settings)
        self.holds = Holds(settings.CONCURRENT_REQUESTS, self._news)
        self.holds.weights.take(settings.download_max_bytes)
        spiller = Spiller(
            self._frontier,
            self.publisher,
            self.holds,
            self._tasks,
            worker=self.name,
            spiderid=self._process.spider,
        )
        self.holds.on_spill = spiller.begin
        self.endings = Endings(self.holds, self.publisher, self._tasks, settings.RETRY_TIMES)
        self.outcomes = Outcomes(self.endings, self.holds, settings, self._count)
        self.traps = Traps(settings.max_path_segments, settings.max_path_repeats)
        self.blacklist = Blacklist(self._frontier, drops=not settings.SCHEDULER_BACKLOG_BLACKLIST)
        self._feeder = Feeder(
            self._frontier,
            self.holds,
            self._robots(),
            self._sleeper,
            meter=self._meter,
            worker=self.name,
            spiderid=self._process.spider,
            may_lease=self._may_lease,
        )
        self._exchanging: asyncio.Task[None] | None = None
        self._health = AsyncExitStack()

    def _robots(self) -> Robots:
        book = RobotsBook(self._redis, self._keys)
        agent = self._crawler.settings["USER_AGENT"] or ""
        noting = self.recorder.noting
        return Robots(book, self.outcomes, self._tasks, self._fetch, noting=noting, agent=agent)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Worker:
        """Scrapy's way to make one."""
        worker = cls(crawler)
        connect, endings = crawler.signals.connect, worker.endings
        connect(worker._opened, signals.spider_opened)
        connect(worker._closed, signals.spider_closed)
        connect(endings.item_left, signals.item_scraped)
        connect(endings.item_left, signals.item_dropped)
        connect(endings.item_failed, signals.item_error)
        connect(endings.spider_failed, signals.spider_error)
        connect(endings.dropped, signals.request_dropped)
        return worker

    @classmethod
    def of(cls, crawler: Crawler) -> Worker:
        """The worker of a crawler; RuntimeError where the extension is not enabled."""
        worker = crawler.get_extension(cls)
        if worker is None:
            raise RuntimeError("the extension crawling.runtime.worker.Worker is not enabled")
        return worker

    # The life of the process.

    async def _opened(self, spider: Spider) -> None:
        try:
            _check(spider)
            logging.getLogger(spider.name).setLevel(self._settings.LOG_LEVEL)
            await self._open()
        except Exception as error:
            self.is_broken = True
            self.refusal = str(error) if isinstance(error, ConfigError) else ""
            log.critical("start", outcome="failed", error=str(error), exc_info=error)
            raise CloseSpider("broken") from error
        collect_seldom()
        return_large_blocks()
        log.info("start", worker=self.name, spider=spider.name)

    async def _open(self) -> None:
        await until_ready("redis", partial(check_redis, self._redis, self._keys))
        await self._frontier.agree(self._settings.throttle_scope)
        await until_ready("redis", self._heartbeat.join)
        await self._sink.start()
        port, host = self._settings.metrics_port, self._settings.metrics_host
        await self._health.enter_async_context(health.serve(port, self._check, host=host))
        for crash in self.recorder.open(self.name):
            returned = await self._frontier.blame(crash.worker, crash.token)
            log.warning("blame", worker=crash.worker, token=crash.token, returned=returned)
        await self._sleeper.start()
        await self.blacklist.look()
        self._exchanging = self._tasks.keep(self._feeder.run())
        self._tasks.keep(self._beat())
        self._tasks.keep(self._leave_in_time())
        self._tasks.keep(self.blacklist.follow())
        self._tasks.keep(self._tally.run())
        self._tasks.keep(self._heartbeat.run())

    def _begin_to_end(self) -> None:
        self._feeder.drain()
        self.publisher.hurry()

    async def _closed(self) -> None:
        """Tell what is left to tell, give back the rest."""
        self._begin_to_end()
        await self._tasks.finish(_LAST_WORDS_S)
        self._feeder.finish()
        if self._exchanging:
            await asyncio.wait([self._exchanging], timeout=_LAST_WORDS_S)
        await self._tasks.stop()
        await self._sleeper.stop()
        try:
            returned = await self._frontier.retire(self.name)
            log.info("stop", worker=self.name, returned=returned)
        except RedisUnavailable as error:
            log.warning("stop", worker=self.name, outcome="not_retired", error=str(error))
        await self._sink.stop()
        self.recorder.close()
        await self._health.aclose()
        await self._redis.aclose()
        await self._waiting_redis.aclose()
        if self.is_broken:
            # By this `scrapy crawl` knows that it must not end with 0.
            self._crawler.spider = None

    def _break(self) -> None:
        """End, so that a supervisor starts the process anew."""
        if not self.is_broken:
            self.is_broken = True
            # Not among the tasks: closing waits for those, and must not wait for itself.
            close = self._crawler.engine.close_spider_async(reason="broken")
            self._closing = asyncio.ensure_future(close)

    async def _leave_in_time(self) -> None:
        """Once a limit of memory or age is passed, end as on SIGTERM."""
        reason = ""
        while not reason:
            await asyncio.sleep(LOOK_EVERY_S)
            reason = self._lifetime.over()
        self.leave(reason)

    def leave(self, reason: str) -> None:
        """End as on SIGTERM: lease nothing more, finish what is under way, give back the rest."""
        log.info("stop", outcome="drains", reason=reason, resident_mb=resident_bytes() >> 20)
        self._begin_to_end()
        self._closing = asyncio.ensure_future(self._crawler.stop_async())

    async def _beat(self) -> None:
        """Move the deadline whatever the pages do, and compare notes now and then."""
        beats = 0
        while True:
            left_at = time.monotonic()
            self.endings.deadlines.enforce()
            try:
                life = await self._frontier.beat(self.name)
                if not self.holds.heard(left_at, life):
                    log.warning("beat", outcome="redis_restarted", life=life)
                beats += 1
                if beats % _BEATS_A_RECONCILE == 0:
                    await self._reconcile()
            except RedisUnavailable as error:
                log.warning("beat", outcome="no_answer", error=str(error))
                await asyncio.sleep(_BEAT_AGAIN_S)
            else:
                await asyncio.sleep(BEAT_EVERY_S)
            if not self._crawler.engine.running:
                self._begin_to_end()

    async def _reconcile(self) -> None:
        unknown = await self._frontier.reconcile(self.name, self.holds.alive())
        for page in self.holds.lose(unknown):
            log.warning("reconcile", outcome="lost", url=page.hold.entry.url, id=page.id)

    def _check(self) -> health.Health:
        waiting_for = self.publisher.waits_for
        if not self.holds.may_send():
            waiting_for = "redis"
        return health.Health(waiting_for=waiting_for, details={"holds": len(self.holds)})

    # What the rooms ask of the process.

    @property
    def spider(self) -> Spider:
        """The spider, once it is open."""
        spider = self._crawler.spider
        if spider is None:
            raise RuntimeError("the spider is not open")
        return spider

    async def requests(self) -> AsyncIterator[Request]:
        """Every page that may be fetched, as a request for Scrapy."""
        try:
            while True:
                page = await self._feeder.ready.get()
                if page.phase is not Phase.WAITING:
                    continue
                try:
                    request = to_scrapy(page, self.spider, self.outcomes.failed)
                    self.endings.deadlines.bind(request, page, self.spider)
                except (TypeError, ValueError) as error:
                    self.endings.fail_soon(page, "invalid_request", str(error))
                else:
                    yield request
        finally:
            self._begin_to_end()

    def _news(self) -> None:
        self._feeder.news()

    def _count(self, page: Page, status: int) -> None:
        self._tally.count_response(self._process.spider, self._process.host, status)
        latency_ms = page.latency_ms if page.status else None
        self._tally.domains.count(page.hold.domain, status, latency_ms)
        self._meter.response(status, latency_ms)

    def _may_lease(self) -> bool:
        return not self.publisher.waits_for and not self._crawler.engine.needs_backout()

    async def _fetch(self, request: Request) -> Response:
        if not self._crawler.engine.running:
            raise GrantExpired
        return await self._crawler.engine.download_async(request)


def _check(spider: Spider) -> None:
    """ConfigError for a spider that would crawl by itself, past the frontier."""
    from crawling.spiders.base import ClusterSpider  # noqa: PLC0415  it knows the worker

    if not isinstance(spider, ClusterSpider):
        raise ConfigError(
            f"{type(spider).__name__} is no spider of the cluster: derive it from"
            " crawling.spiders.base.ClusterSpider, named before other bases"
        )


def _sink(settings: Settings, spiderid: str) -> KafkaSink:
    return KafkaSink(
        settings.KAFKA_HOSTS,
        client_id=f"crawler-{spiderid}",
        shape=settings.topic_shape,
        codec=settings.KAFKA_COMPRESSION,
        linger_ms=RESULTS_LINGER_MS,
    )
