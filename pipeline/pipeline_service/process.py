"""Process of pipelines: its clients, a flow for each of its pipelines, its orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import datetime
from functools import partial
from pathlib import Path

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.boot.clients import kafka_of, redis_client
from crawlstream.boot.garbage import collect_seldom
from crawlstream.boot.health import Health, serve
from crawlstream.boot.log import configure
from crawlstream.boot.redis.refusals import refuse
from crawlstream.boot.settings import Settings
from crawlstream.boot.signals import Stop
from crawlstream.boot.signed_post import SignedPost
from crawlstream.boot.startup import until_ready
from crawlstream.bus.access.rights import Rights, check_rights
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_sink, make_source
from crawlstream.bus.history import partition_offsets
from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import ReadLimits
from crawlstream.bus.tail import end_offsets, offsets_since
from crawlstream.bus.topics import ensure_topics
from crawlstream.errors import ConfigError, CrawlstreamError, Unavailable
from crawlstream.keys import Topics
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat, Work
from crawlstream.store.store import StoreUnavailable
from crawlstream.tasks import beside, end
from crawlstream.wire.cloud_events import CONTENT_TYPE
from crawlstream_frontier.opening.identity import check_early
from crawlstream_frontier.opening.servers import open_frontiers
from pipeline_service.ending import Goals
from pipeline_service.flow import Flow, Proof
from pipeline_service.memory.change_publisher import ChangePublisher
from pipeline_service.memory.visitor import Visitor
from pipeline_service.memory.webhook_sender import WebhookSender
from pipeline_service.metrics import LAG_RECORDS
from pipeline_service.records.undelivered import UndeliveredPublisher
from pipeline_service.run_reporter import RunReporter
from pipeline_service.sink_factory import (
    new_folder,
    open_changes,
    open_kept,
    open_sink,
    open_visits,
    open_webhook,
    prove,
)
from pipeline_service.sinks.files.segments import Spool
from pipeline_service.sinks.sink import Kept
from pipeline_service.spec.choice import chosen
from pipeline_service.spec.config import Pipeline, load
from pipeline_service.spec.memory import PagesSink
from pipeline_service.staging import Staging, opened
from pipeline_service.traced_flow import Traced, sending

DRAIN_S = 45.0
"""Time that open files may take after a stop; those that are not finished are written again."""
_PATIENCE_S = 5
"""How long of that a service that is away is waited for."""
LIMITS = ReadLimits(records=200, fetch_bytes=8 * 1024 * 1024, polls=2)
"""Pages are large: what is read ahead is bounded by this."""
LAG_EVERY_S = 30.0

log = structlog.get_logger()


def load_pipelines(settings: Settings, names: Sequence[str]) -> Sequence[Pipeline]:
    """Return the named pipelines, or all of the file; ConfigError."""
    return chosen(load(Path(settings.pipelines), os.environ), names)


def load_pipeline(settings: Settings, name: str) -> Pipeline:
    """Return the named pipeline; ConfigError, also for a name that several sinks have."""
    found = load_pipelines(settings, [name])
    if len(found) > 1:
        raise ConfigError(
            f"the pipeline {name} has several sinks: name one of"
            f" {', '.join(each.name for each in found)}"
        )
    return found[0]


async def run(settings: Settings, names: Sequence[str], *, until_end: bool = False) -> None:
    """Run pipelines until SIGTERM or SIGINT.

    ``until_end``: until all that is in their sources now is stored; NotStored if it is not.
    """
    configure(settings, "pipeline")
    stop = Stop()
    pipelines = load_pipelines(settings, names)
    process = Process(kind="pipeline", values=_values(pipelines))
    async with sending(settings, process) as traced, opened(pipelines, traced.staging) as stagings:
        proofs = await _prove_all(settings, list(stagings.values()))
        async with open_frontiers(settings) as frontiers:
            await check_early(settings, frontiers)
        kafka = kafka_of(settings, "pipeline")
        await until_ready("kafka", partial(ensure_topics, kafka, settings.topics), stop=stop)
        rights = _rights(pipelines, settings.topics)
        await until_ready("kafka", partial(check_rights, kafka, rights), stop=stop)
        make = partial(_flow, settings, kafka=kafka, traced=traced)
        await _work(settings, proofs, kafka, stop, make=make, process=process, until_end=until_end)
    log.info("end")


def _values(pipelines: Sequence[Pipeline]) -> Mapping[str, str]:
    """Return what all processes with these pipelines must share."""
    memories = [each.failures for each in pipelines if isinstance(each.sink, PagesSink)]
    return {f"[pipeline.{each.name}]": each.digest for each in [*pipelines, *memories]}


def _rights(pipelines: Sequence[Pipeline], topics: Topics) -> Rights:
    """Rights to read their sources and to report; each sink checks its own."""
    return Rights(
        reads=[each.topic(topics) for each in pipelines],
        writes=[topics.undelivered, topics.events],
        groups=[each.group(topics) for each in pipelines],
    )


async def _prove_all(
    settings: Settings, stagings: Sequence[Staging]
) -> Mapping[Staging, Proof | None]:
    """Check each store; return the checks that remain for unavailable stores. ConfigError.

    An unavailable store delays its own pipeline, not the others.
    """

    async def owed(staging: Staging) -> Proof | None:
        proof = partial(prove, settings, staging.pipeline, staging.shape)
        try:
            await asyncio.to_thread(proof)
        except Unavailable as error:
            name = staging.pipeline.name
            log.warning("wait", service="store", pipeline=name, error=str(error))
            return proof
        return None

    return dict(zip(stagings, await asyncio.gather(*map(owed, stagings)), strict=True))


async def _work(
    settings: Settings,
    proofs: Mapping[Staging, Proof | None],
    kafka: Kafka,
    stop: asyncio.Event,
    *,
    make: Callable[..., Flow],
    process: Process,
    until_end: bool,
) -> None:
    """Run pipelines whose stages are open; some stores still have to prove themselves."""
    spool = Spool(Path(settings.spool or Path(settings.home) / "spool"))
    try:
        async with redis_client(settings) as redis, make_sink(kafka) as sink:
            make = partial(make, sink=sink, spool=spool)
            whole = [make(each, proof) for each, proof in proofs.items()]
            memories = [each for each in whole if isinstance(each.pipeline.sink, PagesSink)]
            flows = [*whole, *(make(Staging(one.pipeline.failures)) for one in memories)]
            heartbeat = await _join(redis, settings, flows, process)
            goals = await _goals(settings, flows, kafka, stop) if until_end else None
            visitors = [_visitor(settings, one.pipeline, sink) for one in memories]
            publishers: Sequence[ChangePublisher | WebhookSender] = [
                *_publishers(settings, memories, sink),
                *_senders(settings, memories, sink),
            ]
            helpers = [
                heartbeat.run(),
                *(_observe(settings, flow, kafka=kafka, sink=sink) for flow in whole),
                *(visitor.run() for visitor in visitors if visitor is not None),
                *(publisher.run() for publisher in publishers),
                *([] if goals is None else [goals.watch(stop)]),
            ]
            async with beside(*helpers), _serve(settings, flows):
                collect_seldom()
                log.info("start", pipelines=[each.pipeline.name for each in flows])
                await _run_all(settings, flows, kafka, stop)
            if goals is not None:
                await goals.check()
                await asyncio.gather(*(publisher.drain() for publisher in publishers))
                for flow in whole:
                    with _reporting(settings, flow, kafka=kafka, sink=sink) as (reporter, _):
                        await goals.report(flow, reporter)
    finally:
        spool.close()


async def _goals(
    settings: Settings, flows: Sequence[Flow], kafka: Kafka, stop: asyncio.Event
) -> Goals:
    return await until_ready("kafka", partial(Goals.noted, settings, kafka, flows), stop=stop)


def _serve(settings: Settings, flows: Sequence[Flow]) -> AbstractAsyncContextManager[None]:
    """Answer who asks for health and metrics."""
    return serve(
        settings.metrics_port,
        partial(_health, flows),
        host=settings.metrics_host,
        # Started by hand next to a cluster, it takes any free port.
        or_any_port="SUPERVISOR_ENABLED" not in os.environ,
    )


async def _join(
    redis: Redis, settings: Settings, flows: Sequence[Flow], process: Process
) -> Heartbeat:
    """Register this process; without Redis that waits.

    ConfigError: an equal process has another file, or Redis refuses this one.
    """
    heartbeat = Heartbeat(
        redis,
        settings.keys,
        process,
        work=lambda: Work(sum(each.stored for each in flows)),
        pipelines=lambda: {each.pipeline.name: each.report(settings.topics) for each in flows},
    )
    try:
        await heartbeat.join()
    except RedisError as error:
        refuse(error)
        log.warning("start", outcome="without_redis", error=str(error))
    return heartbeat


def _flow(
    settings: Settings,
    staging: Staging,
    proof: Proof | None = None,
    *,
    kafka: Kafka,
    traced: Traced,
    sink: Sink,
    spool: Spool,
) -> Flow:
    topics, pipeline = settings.topics, staging.pipeline
    source = pipeline.topic(topics)
    begin = partial(_begin, kafka, pipeline, settings.topics)
    target = open_sink(settings, pipeline, spool, begin=begin, shape=staging.shape)
    publisher = UndeliveredPublisher(pipeline, sink, topic=topics.undelivered, source=source)
    return traced.flow(pipeline, target, publisher, staging=staging, proof=proof)


def _visitor(settings: Settings, pipeline: Pipeline, sink: Sink) -> Visitor | None:
    """Return the visitor of a memory; None if pages are only remembered."""
    assert isinstance(pipeline.sink, PagesSink)
    if pipeline.visits is None:
        return None
    store = open_visits(pipeline, pipeline.sink)
    return Visitor(pipeline, store, sink, topics=settings.topics)


def _publishers(
    settings: Settings, memories: Sequence[Flow], sink: Sink
) -> Iterator[ChangePublisher]:
    """Yield the publishers of memories whose changes are events."""
    for pipeline in (flow.pipeline for flow in memories):
        assert isinstance(pipeline.sink, PagesSink)
        if pipeline.sink.changes:
            store = open_changes(pipeline, pipeline.sink)
            yield ChangePublisher(pipeline.name, store, sink, topics=settings.topics)


def _senders(settings: Settings, memories: Sequence[Flow], sink: Sink) -> Iterator[WebhookSender]:
    """Yield the senders of memories whose changes go to a webhook."""
    for pipeline in (flow.pipeline for flow in memories):
        assert isinstance(pipeline.sink, PagesSink)
        if (changes := pipeline.sink.changes) and changes.webhook:
            store = open_webhook(pipeline, pipeline.sink)
            post = SignedPost(changes.webhook, changes.secret, settings, content_type=CONTENT_TYPE)
            yield WebhookSender(pipeline, store, post, sink=sink, topics=settings.topics)


async def _begin(kafka: Kafka, pipeline: Pipeline, topics: Topics, partition: int) -> int | None:
    """Return where a partition begins of which nothing is stored. Unavailable."""
    topic, start = pipeline.topic(topics), pipeline.start
    if (folder := await asyncio.to_thread(new_folder, pipeline)) is not None:
        told = await partition_offsets(kafka, topic, group=pipeline.group(topics))
        if any(each.committed is not None and each.committed <= each.end for each in told.values()):
            raise StoreUnavailable(
                f"{folder} holds nothing, but the pipeline has stored records there: is its disk"
                " mounted? To start again, begin a new edition"
            )
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
        working = {}
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
            working[asyncio.create_task(flow.run(source, stop))] = flow
        await stop.wait()
        await _drain(working)


async def _drain(working: Mapping[asyncio.Task[None], Flow]) -> None:
    """Await work that ends soon; what takes longer, or waits for a service, is cut off."""
    deadline, has_waited = time.monotonic() + DRAIN_S, 0
    while (left := [task for task in working if not task.done()]) and time.monotonic() < deadline:
        await asyncio.wait(left, timeout=1)
        has_waited = has_waited + 1 if all(working[task].waiting_for for task in left) else 0
        if has_waited >= _PATIENCE_S:
            break
    await end(working)
    for task in working:
        with contextlib.suppress(asyncio.CancelledError):
            task.result()


async def _observe(settings: Settings, flow: Flow, *, kafka: Kafka, sink: Sink) -> None:
    """Report the store's progress: of runs that have ended, and of each partition."""
    structlog.contextvars.bind_contextvars(pipeline=flow.pipeline.name)
    with _reporting(settings, flow, kafka=kafka, sink=sink) as (reporter, kept):
        lag = _watch_lag(kafka, flow, kept, flow.pipeline.topic(settings.topics))
        await asyncio.gather(reporter.run(partial(_topic_of_first, flow)), lag)


@contextlib.contextmanager
def _reporting(
    settings: Settings, flow: Flow, *, kafka: Kafka, sink: Sink
) -> Iterator[tuple[RunReporter, Kept]]:
    """The reporter of a pipeline's runs, and the notes that it reads."""
    with contextlib.closing(open_kept(settings, flow.pipeline)) as kept:
        topics, judge = settings.topics, flow.staging.judge
        yield RunReporter(flow.pipeline, kept, sink, kafka=kafka, topics=topics, judge=judge), kept


def _topic_of_first(flow: Flow) -> str | None:
    """Return the source's UUID, if this process reads its first partition."""
    return None if flow.broken else flow.sink.topics.get(0)


async def _watch_lag(kafka: Kafka, flow: Flow, kept: Kept, topic: str) -> None:
    """Report the lag of the store behind the source, of each partition ever assigned here.

    The store is queried, for a partition may belong to another process by now.
    """
    while True:
        try:
            ends = await end_offsets(kafka, topic)
            flow.ends.update(ends)
            for number, topic_id in flow.sink.topics.items():
                found = await asyncio.to_thread(kept.standings, topic_id, [number])
                lag = max(ends.get(number, 0) - (found[number].position or 0), 0)
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
