"""One pipeline process: its clients, a flow for each of its pipelines, its orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream import __version__
from crawlstream.boot.clients import kafka_of, redis_client
from crawlstream.boot.garbage import collect_seldom
from crawlstream.boot.health import Health, serve
from crawlstream.boot.log import configure
from crawlstream.boot.settings import Settings
from crawlstream.boot.signals import Stop
from crawlstream.boot.startup import until_ready
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_sink, make_source
from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import ReadLimits
from crawlstream.bus.tail import end_offsets, offsets_since
from crawlstream.bus.topics import ensure_topics
from crawlstream.errors import CrawlstreamError
from crawlstream.formats.files import Crawl, make_writer
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat, Work
from crawlstream.store.store import Store
from crawlstream.tasks import beside, end
from pipeline_service.config import Pipeline, chosen, load
from pipeline_service.files_sink import FilesSink, base_url
from pipeline_service.flow import Flow
from pipeline_service.metrics import LAG_RECORDS
from pipeline_service.runs import RunReporter
from pipeline_service.segments import Spool
from pipeline_service.undelivered import UndeliveredPublisher

DRAIN_S = 45.0
"""How long the files at hand may take after a stop; what is cut off is made again."""
LIMITS = ReadLimits(records=200, fetch_bytes=8 * 1024 * 1024, polls=2)
"""Pages are large: what is read ahead is bounded by this."""
LAG_EVERY_S = 30.0

log = structlog.get_logger()


def load_pipelines(settings: Settings, names: Sequence[str]) -> Sequence[Pipeline]:
    """Those of the names, or all of the file; ConfigError."""
    return chosen(load(Path(settings.pipelines), os.environ), names)


def open_store(pipeline: Pipeline) -> Store:
    """The folder of a pipeline's edition; ConfigError."""
    return Store.at(base_url(pipeline))


def crawl_of(settings: Settings) -> Crawl:
    """What files say of where their pages come from."""
    robots = "obey" if settings.robotstxt_obey else "ignore"
    return Crawl(f"crawlstream/{__version__}", user_agent=settings.user_agent, robots=robots)


async def run(settings: Settings, names: Sequence[str]) -> None:
    """Run pipelines until SIGTERM or SIGINT."""
    configure(settings, "pipeline")
    stop = Stop()
    pipelines = load_pipelines(settings, names)
    stores = {each.name: open_store(each) for each in pipelines}
    for each in pipelines:
        check_format(each)
        await until_ready("store", partial(asyncio.to_thread, stores[each.name].prove), stop=stop)
    kafka = kafka_of(settings, "pipeline")
    await until_ready("kafka", partial(ensure_topics, kafka, settings.topics), stop=stop)
    spool = Spool(Path(settings.spool or Path(settings.home) / "spool"))
    try:
        async with redis_client(settings) as redis, make_sink(kafka) as sink:
            flows = [
                _flow(settings, each, stores[each.name], kafka=kafka, sink=sink, spool=spool)
                for each in pipelines
            ]
            heartbeat = await _join(redis, settings, flows)
            helpers = [
                heartbeat.run(),
                *(_reported(settings, flow, stores, kafka=kafka, sink=sink) for flow in flows),
                *(_watch_lag(kafka, flow, settings) for flow in flows),
            ]
            async with (
                beside(*helpers),
                serve(
                    settings.metrics_port,
                    partial(_health, flows),
                    host=settings.metrics_host,
                    # Started by hand beside a cluster, it takes whatever port is free.
                    or_any_port="SUPERVISOR_ENABLED" not in os.environ,
                ),
            ):
                collect_seldom()
                log.info("start", pipelines=[each.name for each in pipelines])
                await _run_all(settings, flows, kafka, stop)
    finally:
        spool.close()
    log.info("end")


def check_format(pipeline: Pipeline) -> None:
    """ConfigError where the library of its format is not installed."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  a device
        make_writer(pipeline.sink.format, nowhere, Crawl("")).close()


async def _join(redis: Redis, settings: Settings, flows: Sequence[Flow]) -> Heartbeat:
    """Say who we are; without Redis that waits. ConfigError: an equal has another file."""
    values = {f"[pipeline.{each.pipeline.name}]": each.pipeline.digest for each in flows}
    heartbeat = Heartbeat(
        redis,
        settings.keys,
        Process(kind="pipeline", values=values),
        work=lambda: Work(sum(each.stored for each in flows)),
        pipelines=lambda: {each.pipeline.name: each.told(settings.topics) for each in flows},
    )
    try:
        await heartbeat.join()
    except RedisError as error:
        log.warning("start", outcome="without_redis", error=str(error))
    return heartbeat


def _flow(
    settings: Settings, pipeline: Pipeline, store: Store, *, kafka: Kafka, sink: Sink, spool: Spool
) -> Flow:
    topics = settings.topics
    source = pipeline.topic(topics)
    begin = partial(_begin, kafka, source, pipeline.start)
    files = FilesSink(pipeline, store, spool, begin=begin, crawl=crawl_of(settings))
    publisher = UndeliveredPublisher(pipeline, sink, topic=topics.undelivered, source=source)
    return Flow(pipeline, files, publisher)


async def _begin(kafka: Kafka, topic: str, start: str | datetime, partition: int) -> int | None:
    """Where a partition begins of which nothing is stored."""
    if start == "earliest":
        return None
    if isinstance(start, datetime):
        found = await offsets_since(kafka, topic, int(start.timestamp() * 1000))
    else:
        found = await end_offsets(kafka, topic)
    return found.get(partition, 0)


async def _run_all(
    settings: Settings, flows: Sequence[Flow], kafka: Kafka, stop: asyncio.Event
) -> None:
    async with AsyncExitStack() as stack:
        work = []
        for flow in flows:
            source = make_source(
                kafka,
                flow.pipeline.topic(settings.topics),
                group=flow.pipeline.group(settings.topics),
                locate=flow.locate,
                on_out_of_range=flow.decide,
                limits=LIMITS,
            )
            await stack.enter_async_context(source)
            work.append(flow.run(source, stop))
        await _until(stop, work)


async def _until(stop: asyncio.Event, work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Await work that ends soon after ``stop``; what takes longer is cut off."""
    working = {asyncio.create_task(one) for one in work}
    await stop.wait()
    await asyncio.wait(working, timeout=DRAIN_S)
    await end(working)
    for task in working:
        with contextlib.suppress(asyncio.CancelledError):
            task.result()


async def _reported(
    settings: Settings, flow: Flow, stores: Mapping[str, Store], *, kafka: Kafka, sink: Sink
) -> None:
    store = stores[flow.pipeline.name]
    reporter = RunReporter(flow.pipeline, store, sink, kafka=kafka, topics=settings.topics)
    await reporter.run(partial(_topic_of_first, flow))


def _topic_of_first(flow: Flow) -> str | None:
    """The source's UUID, if we read its first partition."""
    first = flow.sink.parts.get(0)
    return first.topic_id if first and first.chain and not flow.broken else None


async def _watch_lag(kafka: Kafka, flow: Flow, settings: Settings) -> None:
    """Tell how far the store is behind the source, of each partition that we have had.

    The store is asked, for a partition may be another process' by now.
    """
    topic = flow.pipeline.topic(settings.topics)
    while True:
        try:
            ends = await end_offsets(kafka, topic)
            for number, part in list(flow.sink.parts.items()):
                part.end = ends.get(number, 0)
                if part.chain is not None:
                    stored = (await asyncio.to_thread(part.chain.end)).position
                    lag = max(ends.get(number, 0) - (stored or 0), 0)
                    LAG_RECORDS.labels(flow.pipeline.name, number).set(lag)
        except CrawlstreamError as error:
            log.debug("read", outcome="lag_unknown", error=str(error))
        await asyncio.sleep(LAG_EVERY_S)


def _health(flows: Sequence[Flow]) -> Health:
    """A pipeline that waits for an operator makes the process neither dead nor waiting."""
    waiting = next((flow.waiting_for for flow in flows if flow.waiting_for), "")
    broken = [f"{flow.pipeline.name}: {flow.broken}" for flow in flows if flow.broken]
    return Health(
        alive=not any(flow.liveness.is_stuck for flow in flows),
        waiting_for=waiting,
        problem="; ".join(broken),
        details={"pipelines": [flow.pipeline.name for flow in flows]},
    )
