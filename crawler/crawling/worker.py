"""The worker: one incarnation of a crawler process, from its first beat to its last.

As a Scrapy extension it opens the frontier, the sink to Kafka and the flight recorder before the
first request, keeps the worker's deadline moving whatever the pages do, and gives back everything
that Redis holds for it at the end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from scrapy import Request, signals
from scrapy.http import Response

from crawling.feeder import Feeder
from crawling.holds import Holds, Page, Phase
from crawling.outcome import Outcomes
from crawling.publish import Publisher
from crawling.recorder import Recorder
from crawling.robots import Ends, Robots, RobotsBook
from crawling.to_scrapy import PAGE, to_scrapy
from crawlstream.boot import health
from crawlstream.boot.clients import blocking_redis, redis_client
from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.retry import until_ready
from crawlstream.boot.settings import Settings
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.topics import TopicShape
from crawlstream.errors import KafkaUnavailable, RedisUnavailable
from crawlstream.frontier.frontier import Frontier
from crawlstream.frontier.wake import Sleeper
from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.model.effects import Outcome
from crawlstream.model.event import PageFailed
from crawlstream.stats.heartbeat import Heartbeat, Process
from crawlstream.stats.tally import Tally

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure

BEAT_EVERY_S = 5.0
RECONCILE_EVERY_BEATS = 6
_BEAT_AGAIN_S = 1.0
_TELL_S = 10.0
"""How long the last words to a Redis that does not answer are repeated."""

log = structlog.get_logger()


class Worker:
    """Holds the parts of one crawler process together."""

    def __init__(self, crawler: Crawler) -> None:
        settings: Settings = crawler.settings["CRAWLSTREAM"]
        self.settings = settings
        self._crawler = crawler
        self._process = Process(kind="crawler", spider=crawler.spidercls.name)
        self.name = self._process.name
        self._tasks: set[asyncio.Task[None]] = set()
        self._redis = redis_client(settings)
        self._waiting_redis = blocking_redis(settings)
        keys = FrontierKeys(settings.namespace, settings.partitions)
        self._frontier = Frontier(self._redis, keys)
        self._sink = KafkaSink(
            settings.KAFKA_HOSTS,
            client_id=f"crawler-{self._process.spider}",
            shape=TopicShape(
                partitions=settings.incoming_partitions,
                replication=settings.replication,
                max_record_bytes=settings.max_record_bytes,
            ),
        )
        self.publisher = Publisher(self._sink, settings)
        self.recorder = Recorder(Path(settings.home) / "recorder", encode_id(self._process.spider))
        self.tally = Tally(self._redis, keys)
        self._heartbeat = Heartbeat(self._redis, keys, self._process)
        self._sleeper = Sleeper(self._waiting_redis, keys, self.name)
        self.holds = Holds(settings.CONCURRENT_REQUESTS, self._news)
        self.outcomes = Outcomes(self)
        self._feeder = Feeder(
            self._frontier,
            self.holds,
            Robots(
                RobotsBook(self._redis, keys),
                settings,
                Ends(self.holds, self.fail, self.outcomes.give_up),
                self._fetch,
            ),
            self._sleeper,
            worker=self.name,
            spiderid=self._process.spider,
            may_lease=self._may_lease,
            forbid=self._forbid,
            spawn=self.spawn,
        )
        self._exchanging: asyncio.Task[None] | None = None
        self._beats = 0
        self._stack = AsyncExitStack()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Worker:
        """Scrapy's way to make one."""
        worker = cls(crawler)
        connect = crawler.signals.connect
        connect(worker._opened, signals.spider_opened)
        connect(worker._closed, signals.spider_closed)
        connect(worker._item_left, signals.item_scraped)
        connect(worker._item_left, signals.item_dropped)
        connect(worker._item_failed, signals.item_error)
        connect(worker._spider_failed, signals.spider_error)
        connect(worker._dropped, signals.request_dropped)
        return worker

    @classmethod
    def of(cls, crawler: Crawler) -> Worker:
        """The worker of a crawler; RuntimeError where the extension is not enabled."""
        worker = crawler.get_extension(cls)
        if worker is None:
            raise RuntimeError("the extension crawling.worker.Worker is not enabled")
        return worker

    # The life of the process.

    async def _opened(self, spider: Spider) -> None:
        await until_ready("redis", self._redis.ping)
        await self._sink.start()
        await self._stack.enter_async_context(
            health.serve(self.settings.metrics_port, self._health)
        )
        for crash in self.recorder.open(self.name):
            returned = await self._frontier.blame(crash.worker, crash.token)
            log.warning("blame", worker=crash.worker, token=crash.token, returned=returned)
        await self._sleeper.start()
        self._exchanging = self._keep(self._feeder.run())
        self._keep(self._beat())
        self._keep(self.tally.run())
        self._keep(self._heartbeat.run())
        log.info("start", worker=self.name, spider=spider.name)

    async def _closed(self) -> None:
        """Tell what is left to tell, give back the rest."""
        self.publisher.hurry()
        self._feeder.drain()
        if self._exchanging:
            with suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self._exchanging, _TELL_S)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._sleeper.stop()
        with suppress(RedisUnavailable):
            returned = await self._frontier.retire(self.name)
            log.info("stop", worker=self.name, returned=returned)
        await self._sink.stop()
        self.recorder.close()
        await self._stack.aclose()
        await self._redis.aclose()
        await self._waiting_redis.aclose()

    async def _beat(self) -> None:
        """Move the deadline, and compare notes with Redis now and then."""
        while True:
            left_at = time.monotonic()
            try:
                await self._frontier.beat(self.name)
                self.holds.heard(left_at)
                self._beats += 1
                if self._beats % RECONCILE_EVERY_BEATS == 0:
                    await self._reconcile()
            except RedisUnavailable as error:
                log.warning("beat", outcome="no_answer", error=str(error))
                await asyncio.sleep(_BEAT_AGAIN_S)
            else:
                await asyncio.sleep(BEAT_EVERY_S)

    async def _reconcile(self) -> None:
        unknown = await self._frontier.reconcile(self.name, self.holds.alive())
        for page in self.holds.lose(unknown):
            log.warning("reconcile", outcome="lost", url=page.hold.entry.url, id=page.id)

    def _health(self) -> health.Health:
        waiting = "kafka" if self.publisher.is_stuck else ""
        waiting = waiting if self.holds.may_send() else "redis"
        return health.Health(waiting_for=waiting, details={"holds": len(self.holds)})

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the rest; a failure is logged."""
        self._start(work).add_done_callback(_log_failure)

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something that the worker cannot do without."""
        task = self._start(work)
        task.add_done_callback(self._end_if_broken)
        return task

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _end_if_broken(self, task: asyncio.Task[None]) -> None:
        """A worker without one of its parts must end, so that it is started anew."""
        if task.cancelled() or task.exception() is None:
            return
        log.critical("stop", outcome="broken", exc_info=task.exception())
        self.spawn(self._crawler.engine.close_spider_async(reason="broken"))

    # What the rooms ask of the worker.

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
                if page.phase is not Phase.UNSENT:
                    continue
                try:
                    request = to_scrapy(page, self.spider, self.outcomes.failed)
                except (TypeError, ValueError) as error:
                    self.spawn(self.fail(page, "invalid_request", str(error)))
                else:
                    yield request
        finally:
            self._feeder.drain()

    async def fail(self, page: Page, reason: str, detail: str = "") -> None:
        """The page will have no result: say so in Kafka, then in the frontier."""
        if not page.is_open:
            return
        hold = page.hold
        event = PageFailed(
            id=page.id,
            crawl=hold.crawl,
            run=hold.run,
            server_time=int(time.time()),
            url=hold.entry.url,
            reason=reason,
            attempts=hold.attempt,
            depth=hold.entry.depth,
            parent_url=hold.entry.parent_url,
            uuid=hold.profile.uuid,
        )
        await self.publisher.failure(event)
        failpoint("after_publish")
        log.warning("settle", outcome="failed", reason=reason, url=event.url, detail=detail[:200])
        self.holds.settle(page, Outcome.FAILED, reason)

    async def _forbid(self, page: Page) -> None:
        await self.fail(page, "robots")

    def count_response(self, status: int) -> None:
        """Count for ``stats``; 504 stands for a download without a response."""
        self.tally.count_response(self._process.spider, self._process.host, status)

    def finish(self, page: Page) -> None:
        """Settle the page if everything that it led to has left this process."""
        if not page.parsed or page.items or not page.is_open:
            return
        if page.failure:
            self.spawn(self.fail(page, page.failure))
            return
        log.info(
            "settle",
            outcome="done",
            url=page.hold.entry.url,
            status=page.status,
            attempt=page.hold.attempt,
            links=sum(len(group.entries) for group in page.links),
            latency_ms=page.latency_ms,
        )
        self.holds.settle(page, Outcome.DONE, f"{page.status // 100}xx")

    def _news(self) -> None:
        self._feeder.news()

    def _may_lease(self) -> bool:
        return not self.publisher.is_stuck and not self._crawler.engine.needs_backout()

    async def _fetch(self, request: Request) -> Response:
        return await self._crawler.engine.download_async(request)

    # What Scrapy tells.

    def _item_left(self, response: Any) -> None:
        if page := _page_behind(response):
            page.items -= 1
            self.finish(page)

    def _item_failed(self, response: Any, failure: Failure) -> None:
        page = _page_behind(response)
        if page and not isinstance(failure.value, KafkaUnavailable):
            page.failure = "item_error"
            self._item_left(response)

    def _spider_failed(self, response: Any) -> None:
        if page := _page_behind(response):
            page.failure = "spider_error"
            page.parsed = True
            self.finish(page)

    def _dropped(self, request: Request) -> None:
        if page := request.meta.get(PAGE):
            self.holds.release(page)


def _page_behind(response: Any) -> Page | None:
    """The page of a signal's response; none where an errback or ``start()`` was at work."""
    page: Page | None = response.meta.get(PAGE) if isinstance(response, Response) else None
    return page


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("stop", outcome="task_failed", exc_info=error)
