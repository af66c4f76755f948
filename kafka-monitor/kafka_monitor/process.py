"""Process of a kafka-monitor: its clients, its loop, its orderly end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from functools import partial
from typing import Any

import structlog

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.garbage import collect_seldom
from crawlstream.boot.health import Health, serve
from crawlstream.boot.log import configure
from crawlstream.boot.metrics import total_of
from crawlstream.boot.settings import Settings
from crawlstream.boot.signals import Stop
from crawlstream.boot.startup import until_ready
from crawlstream.boot.variables import values_of
from crawlstream.bus.access.rights import Rights, check_rights
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_sink
from crawlstream.bus.history import read_all
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.topics import ensure_topics
from crawlstream.keys import Topics
from crawlstream.model.process import Process
from crawlstream.plugins.handlers import Router, installed
from crawlstream.stats.heartbeat import Heartbeat, Work
from crawlstream.stats.tally import Tally
from crawlstream.tasks import beside, end
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.opening.identity import check_early, join_cluster
from crawlstream_frontier.opening.servers import open_frontiers
from crawlstream_frontier.opening.startup_check import Missing, check_frontiers, keep_agreeing
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_traces.sender import open_sender
from kafka_monitor.assembly import MonitorParts, Resources, assemble
from kafka_monitor.metrics import PAUSED, RECORDS
from kafka_monitor.offset_gaps import problem_of
from kafka_monitor.plugins.action_handler import ActionHandler
from kafka_monitor.plugins.schedule_handler import ScheduleHandler
from kafka_monitor.plugins.scraper_handler import ScraperHandler
from kafka_monitor.plugins.stats_handler import StatsHandler
from kafka_monitor.plugins.zookeeper_handler import ZookeeperHandler
from kafka_monitor.rejections import RejectionPublisher

DRAIN_S = 10.0
"""Time that the current batch may take after a stop; an unfinished batch is read again."""

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Move requests until SIGTERM or SIGINT."""
    configure(settings, "kafka-monitor")
    async with open_frontiers(settings) as frontiers:
        # A faulty plugin is reported before any server is called.
        router = _router(settings, frontiers.root)
        await _work(settings, frontiers, router)


async def _work(settings: Settings, frontiers: Frontiers, router: Router) -> None:
    stop, heartbeat = Stop(), _heartbeat(settings, frontiers)
    spans = open_sender(settings.traces, heartbeat.process)
    topics, root, redis = settings.topics, frontiers.root, frontiers.servers[0].redis
    kafka = kafka_of(settings, "kafka-monitor")
    partitions = len(frontiers)
    await check_early(settings, frontiers)
    await until_ready("kafka", partial(ensure_topics, kafka, topics, partitions), stop=stop)
    rights = _rights(settings, partitions)
    await until_ready("kafka", partial(check_rights, kafka, rights), stop=stop)
    async with make_sink(kafka) as sink:
        missing_are = await until_ready("kafka", partial(_before, kafka, topics), stop=stop)
        check = partial(check_frontiers, frontiers, missing_are)
        missing = await until_ready("redis", check, stop=stop)
        join = partial(join_cluster, settings, frontiers)
        await until_ready("redis", join, stop=stop)
        tally = Tally(redis, root.scripts.keys)
        await frontiers.rules.agree(settings.throttle_scope)
        await until_ready("redis", heartbeat.join, stop=stop)
        resources = Resources(
            settings=settings,
            frontiers=frontiers,
            kafka=kafka,
            sink=sink,
            rejects=RejectionPublisher(Outbound(sink, topics, per_app=settings.kafka_appid_topics)),
            router=router,
            tally=tally,
            spans=spans,
            join=join,
        )
        work = assemble(resources)
        health = partial(_health, work)
        port, host = settings.metrics_port, settings.metrics_host
        agreeing = keep_agreeing(frontiers, missing or (), stop, join)
        helpers = (tally.run(), heartbeat.run(), agreeing)
        async with (
            work.source,
            beside(*helpers, *work.helpers),
            serve(port, health, host=host),
        ):
            collect_seldom()
            log.info("start", node=heartbeat.process.node, topic=topics.incoming)
            await _until(stop, work.loop.run(stop))
        await work.stop()
        if spans is not None:
            await asyncio.to_thread(spans.close)
    log.info("end")


def _rights(settings: Settings, partitions: int) -> Rights:
    """Rights that its work needs, also those that it uses only after a loss or a full Redis."""
    topics, group = settings.topics, settings.kafka_group
    extra = ("overflow", topics.overflow) if partitions == 1 else ("links", topics.links)
    return Rights(
        reads=[topics.incoming, topics.runs, topics.schedules, extra[1]],
        writes=[topics.rejected, topics.outbound, topics.runs],
        groups=[group, f"{group}.{extra[0]}"],
    )


def _heartbeat(settings: Settings, frontiers: Frontiers) -> Heartbeat:
    first, *also = frontiers.heartbeats
    values = values_of(settings, "max_depth", "max_schedules", "schedule_min_s", "max_remember")
    process = Process(kind="kafka-monitor", values=values)
    return Heartbeat(*first, process, work=lambda: Work(total_of(RECORDS)), also=also)


def _router(settings: Settings, frontier: Frontier) -> Router:
    ours = (
        ScraperHandler(frontier.pools),
        ActionHandler(),
        ScheduleHandler(),
        StatsHandler(),
        ZookeeperHandler(),
    )
    return Router([*ours, *installed()], settings.request_limits)


async def _before(kafka: Kafka, topics: Topics) -> Missing:
    """Return which partitions without data existed before: Kafka knows earlier epochs of them."""
    records = await read_all(kafka, topics.runs)
    return (
        "lost"
        if any((r.key or b"").startswith(Topics.COORDINATOR_KEYS) for r in records)
        else "new"
    )


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Await work that ends soon after ``stop``; what takes longer is cut off."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await asyncio.wait({working}, timeout=DRAIN_S)
    await end([working])
    with contextlib.suppress(asyncio.CancelledError):
        working.result()


def _health(work: MonitorParts) -> Health:
    """A partition that waits for a person makes it neither dead nor waiting: the others go on."""
    paused, loop = work.source.paused, work.loop
    PAUSED.clear()
    for partition in paused:
        PAUSED.labels(partition).set(1)
    is_stuck = any(each.is_stuck for each in (loop.liveness, *work.livenesses))
    waits_for_kafka = work.source.obstacle or ("kafka" if work.source.is_waiting else "")
    waiting_for = loop.liveness.waiting_for or waits_for_kafka
    return Health(
        alive=not is_stuck,
        waiting_for=waiting_for,
        problem=problem_of(paused),
        details={"paused": list(paused)},
    )
