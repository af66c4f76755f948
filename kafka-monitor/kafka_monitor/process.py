"""One kafka-monitor process: its clients, its loop, its orderly end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from functools import partial
from typing import Any

import structlog
from redis.asyncio import Redis

from crawlstream.boot.clients import kafka_of, redis_client
from crawlstream.boot.garbage import collect_seldom
from crawlstream.boot.health import Health, serve
from crawlstream.boot.log import configure
from crawlstream.boot.metrics import total_of
from crawlstream.boot.redis_check import check_redis
from crawlstream.boot.settings import Settings
from crawlstream.boot.signals import Stop
from crawlstream.boot.startup import until_ready
from crawlstream.boot.variables import told
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_sink, make_source
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.protocols import Locate, Source
from crawlstream.bus.topics import ensure_topics
from crawlstream.frontier.frontier import Frontier
from crawlstream.model.process import Process
from crawlstream.plugins.requests import Router, installed
from crawlstream.stats.heartbeat import Heartbeat, Work
from crawlstream.stats.tally import Tally
from crawlstream.tasks import beside, end
from kafka_monitor.intake import Intake
from kafka_monitor.intake_loop import IntakeLoop
from kafka_monitor.metrics import PAUSED, RECORDS
from kafka_monitor.offset_gaps import OffsetGapPolicy, problem_of
from kafka_monitor.plugins.action import ActionHandler
from kafka_monitor.plugins.schedule import ScheduleHandler
from kafka_monitor.plugins.scraper import ScraperHandler
from kafka_monitor.plugins.stats import StatsHandler
from kafka_monitor.plugins.zookeeper import ZookeeperHandler
from kafka_monitor.poison import PoisonDetector
from kafka_monitor.recall import Recall
from kafka_monitor.recovery import Recovery
from kafka_monitor.rejections import RejectionPublisher
from kafka_monitor.schedule_memory import ScheduleMemory
from kafka_monitor.stop_lookahead import StopLookahead

DRAIN_S = 10.0
"""How long the batch at hand may take after a stop; cut off, it is simply read again."""

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Move requests until SIGTERM or SIGINT."""
    configure(settings, "kafka-monitor")
    async with redis_client(settings) as redis:
        # A plugin that is wrong is told of before any server is asked.
        router = _router(settings, Frontier(redis, settings.keys))
        await _work(settings, redis, router)


async def _work(settings: Settings, redis: Redis, router: Router) -> None:
    stop = Stop()
    topics, keys, group = settings.topics, settings.keys, settings.kafka_group
    kafka = kafka_of(settings, "kafka-monitor")
    await until_ready("kafka", partial(ensure_topics, kafka, topics), stop=stop)
    async with make_sink(kafka) as sink:
        await until_ready("redis", partial(check_redis, redis, settings.partitions), stop=stop)
        frontier, tally = Frontier(redis, keys), Tally(redis, keys)
        process = Process(
            kind="kafka-monitor",
            values=told(settings, "max_depth", "max_schedules", "schedule_min_s", "max_remember"),
        )
        heartbeat = Heartbeat(redis, keys, process, work=lambda: Work(total_of(RECORDS)))
        await frontier.rules.agree(settings.throttle_scope)
        await until_ready("redis", heartbeat.join, stop=stop)
        rejects = RejectionPublisher(Outbound(sink, topics, per_app=settings.kafka_appid_topics))
        breaker = PoisonDetector(frontier.positions)
        recovery = Recovery(
            frontier.positions,
            sink,
            topics,
            rejects=rejects,
            kafka=kafka,
            group=group,
            schedules=ScheduleMemory(frontier.schedules, kafka, topics),
        )
        gaps = OffsetGapPolicy(frontier.intake, rejects)
        locate = breaker.noting(recovery.locate)
        async with _source(settings, kafka, locate=locate, gaps=gaps) as source:
            intake = Intake(frontier.intake, router, recovery, breaker)
            ahead = StopLookahead(
                frontier.intake, router, recovery, kafka=kafka, topic=topics.incoming
            )
            loop = IntakeLoop(source, intake, rejects, recovery=recovery, ahead=ahead, tally=tally)
            recall = Recall(frontier.overflow, rejects, kafka=kafka, topics=topics, group=group)
            async with (
                beside(tally.run(), heartbeat.run(), recall.run(), ahead.run()),
                serve(
                    settings.metrics_port,
                    partial(_health, source, loop, recall),
                    host=settings.metrics_host,
                ),
            ):
                collect_seldom()
                log.info("start", node=process.node, topic=topics.incoming)
                await _until(stop, loop.run(stop))
    log.info("end")


def _source(settings: Settings, kafka: Kafka, *, locate: Locate, gaps: OffsetGapPolicy) -> Source:
    return make_source(
        kafka,
        settings.topics.incoming,
        group=settings.kafka_group,
        locate=locate,
        on_out_of_range=gaps.decide,
    )


def _router(settings: Settings, frontier: Frontier) -> Router:
    ours = (
        ScraperHandler(frontier.pools),
        ActionHandler(),
        ScheduleHandler(),
        StatsHandler(),
        ZookeeperHandler(),
    )
    return Router([*ours, *installed()], settings.request_limits)


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Await work that ends soon after ``stop``; what takes longer is cut off."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await asyncio.wait({working}, timeout=DRAIN_S)
    await end([working])
    with contextlib.suppress(asyncio.CancelledError):
        working.result()


def _health(source: Source, loop: IntakeLoop, recall: Recall) -> Health:
    """A partition that waits for a person makes it neither dead nor waiting: the others go on."""
    paused = source.paused
    PAUSED.clear()
    for partition in paused:
        PAUSED.labels(partition).set(1)
    is_stuck = loop.liveness.is_stuck or recall.liveness.is_stuck
    waiting_for = loop.liveness.waiting_for or ("kafka" if source.is_waiting else "")
    return Health(
        alive=not is_stuck,
        waiting_for=waiting_for,
        problem=problem_of(paused),
        details={"paused": list(paused)},
    )
