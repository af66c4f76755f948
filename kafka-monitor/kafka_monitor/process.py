"""One kafka-monitor process: its clients, its loop, its orderly end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from functools import partial
from typing import Any

import structlog

from crawlstream.boot.clients import redis_client
from crawlstream.boot.garbage import collect_seldom
from crawlstream.boot.health import Health, serve
from crawlstream.boot.log import configure
from crawlstream.boot.redis_check import check_redis
from crawlstream.boot.retry import until_ready
from crawlstream.boot.settings import Settings
from crawlstream.boot.signals import Stop
from crawlstream.boot.variables import told
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.source import KafkaSource, Locate
from crawlstream.bus.topics import ensure_topics
from crawlstream.frontier.frontier import Frontier
from crawlstream.frontier.overflow import Overflow
from crawlstream.frontier.positions import Positions
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat
from crawlstream.stats.tally import Tally
from crawlstream.tasks import beside, end
from kafka_monitor.ahead import Ahead
from kafka_monitor.breaker import Breaker
from kafka_monitor.gaps import Gaps, problem_of
from kafka_monitor.intake import Intake
from kafka_monitor.loop import Loop
from kafka_monitor.metrics import PAUSED
from kafka_monitor.plugins.action import ActionHandler
from kafka_monitor.plugins.door import Router, installed
from kafka_monitor.plugins.scraper import ScraperHandler
from kafka_monitor.plugins.stats import StatsHandler
from kafka_monitor.plugins.zookeeper import ZookeeperHandler
from kafka_monitor.recall import Recall
from kafka_monitor.recovery import Recovery
from kafka_monitor.rejects import Rejects

DRAIN_S = 10.0
"""How long the batch at hand may take after a stop; cut off, it is simply read again."""

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Move requests until SIGTERM or SIGINT."""
    configure(settings, "kafka-monitor")
    stop = Stop()
    topics, keys = settings.topics, settings.keys
    make_topics = partial(ensure_topics, settings.KAFKA_HOSTS, topics, settings.topic_shape)
    await until_ready("kafka", make_topics, stop=stop)
    async with redis_client(settings) as redis, _sink(settings) as sink:
        await until_ready("redis", partial(check_redis, redis, keys), stop=stop)
        frontier, tally = Frontier(redis, keys), Tally(redis, keys)
        process = Process(kind="kafka-monitor", values=told(settings, "max_depth"))
        heartbeat = Heartbeat(redis, keys, process)
        await frontier.agree(settings.throttle_scope)
        await until_ready("redis", heartbeat.join, stop=stop)
        rejects = Rejects(Outbound(sink, topics, per_app=settings.KAFKA_APPID_TOPICS))
        positions = Positions(redis, keys)
        breaker = Breaker(positions)
        recovery = Recovery(
            positions,
            sink,
            topics,
            rejects=rejects,
            hosts=settings.KAFKA_HOSTS,
            group=settings.KAFKA_GROUP,
        )
        gaps = Gaps(frontier, rejects)
        async with _source(settings, breaker.noting(recovery.locate), gaps) as source:
            router = _router(settings)
            intake = Intake(frontier, router, recovery, breaker)
            ahead = Ahead(
                frontier, router, recovery, hosts=settings.KAFKA_HOSTS, topic=topics.incoming
            )
            loop = Loop(source, intake, rejects, recovery=recovery, ahead=ahead, tally=tally)
            recall = Recall(Overflow(redis, keys), rejects, topics=topics, settings=settings)
            async with (
                serve(
                    settings.metrics_port,
                    partial(_health, source, loop, recall),
                    host=settings.metrics_host,
                ),
                beside(tally.run(), heartbeat.run(), recall.run(), ahead.run()),
            ):
                collect_seldom()
                log.info("start", node=process.node, topic=topics.incoming)
                await _until(stop, loop.run(stop))
    log.info("end")


def _router(settings: Settings) -> Router:
    ours = (ScraperHandler(), ActionHandler(), StatsHandler(), ZookeeperHandler())
    return Router([*ours, *installed()], settings.request_limits)


def _sink(settings: Settings) -> KafkaSink:
    return KafkaSink(
        settings.KAFKA_HOSTS,
        client_id="kafka-monitor",
        shape=settings.topic_shape,
        codec=settings.KAFKA_COMPRESSION,
    )


def _source(settings: Settings, locate: Locate, gaps: Gaps) -> KafkaSource:
    return KafkaSource(
        settings.KAFKA_HOSTS,
        settings.topics.incoming,
        group=settings.KAFKA_GROUP,
        locate=locate,
        on_out_of_range=gaps.decide,
        client_id="kafka-monitor",
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


def _health(source: KafkaSource, loop: Loop, recall: Recall) -> Health:
    """A partition that waits for a person makes it neither dead nor waiting: the others go on."""
    paused = source.paused
    PAUSED.clear()
    for partition in paused:
        PAUSED.labels(partition).set(1)
    is_stuck = loop.pulse.is_stuck or recall.pulse.is_stuck
    waiting_for = loop.pulse.waiting_for or ("kafka" if source.is_waiting else "")
    return Health(
        alive=not is_stuck,
        waiting_for=waiting_for,
        problem=problem_of(paused),
        details={"paused": list(paused)},
    )
