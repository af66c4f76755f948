"""One redis-monitor process: its clients, its duties, its orderly end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import structlog
from redis.asyncio import Redis

from crawlstream.boot.clients import blocking_redis, redis_client
from crawlstream.boot.health import Health, serve
from crawlstream.boot.log import configure
from crawlstream.boot.redis_check import check_redis
from crawlstream.boot.retry import until_ready
from crawlstream.boot.settings import Settings
from crawlstream.boot.signals import Stop
from crawlstream.boot.variables import told
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.topics import ensure_topics
from crawlstream.frontier.frontier import Frontier, FrontierLimits
from crawlstream.frontier.streams import Streams
from crawlstream.frontier.wake import Sleeper
from crawlstream.keys import FrontierKeys, Topics
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat
from crawlstream.stats.history import History
from crawlstream.stats.pulse import Pulse
from crawlstream.stats.tally import Tally
from crawlstream.tasks import beside, end
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream.throttle.watch import ThrottleWatch
from redis_monitor.actions import load_actions
from redis_monitor.actions.door import Context
from redis_monitor.answers import Answers
from redis_monitor.audit import Audit
from redis_monitor.duty import Duty
from redis_monitor.figures import Figures
from redis_monitor.ledger import Ledger
from redis_monitor.reaper import Reaper
from redis_monitor.rules import Rules

SHARED = ("DUPEFILTER_TIMEOUT", "finish_grace", "max_wait", "max_queued_crawl", "max_queued")
"""Settings by which any of several redis-monitors must end crawls alike."""
DRAIN_S = 10.0
"""How long the steps at hand may take after a stop; what is cut off is taken over by another."""

FORGET_EVERY_S = 3600.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """What the duties work with."""

    settings: Settings
    topics: Topics
    keys: FrontierKeys
    redis: Redis
    blocking: Redis
    sink: KafkaSink
    frontier: Frontier
    editor: ThrottleEditor
    tally: Tally
    consumer: str
    """Name of this process in the consumer groups."""

    @property
    def outbound(self) -> Outbound:
        """Where replies go."""
        return Outbound(self.sink, self.topics, per_app=self.settings.KAFKA_APPID_TOPICS)

    @property
    def streams(self) -> Streams:
        """The frontier's streams, read under this process' name."""
        return Streams(self.blocking, self.keys, self.consumer)


async def run(settings: Settings) -> None:
    """Answer, publish and tend until SIGTERM or SIGINT."""
    configure(settings, "redis-monitor")
    stop = Stop()
    async with AsyncExitStack() as stack:
        process = Process(kind="redis-monitor", values=told(settings, *SHARED))
        plant = await _plant(settings, process.node, stop=stop, stack=stack)
        heartbeat = Heartbeat(plant.redis, plant.keys, process)
        await plant.frontier.agree(settings.throttle_scope)
        await until_ready("redis", heartbeat.join, stop=stop)
        rules = _rules(plant)
        duties = [
            _answering(plant),
            _publishing(plant),
            await stack.enter_async_context(_tending(plant)),
            await stack.enter_async_context(_copying_rules(rules)),
            _auditing(plant),
            _looking(plant, rules),
            _forgetting(plant),
        ]
        await stack.enter_async_context(beside(plant.tally.run(), heartbeat.run()))
        health = partial(_health, duties)
        port, host = settings.metrics_port, settings.metrics_host
        await stack.enter_async_context(serve(port, health, host=host))
        log.info("start", node=process.node)
        await _until(stop, duties)
    log.info("end")


async def _plant(
    settings: Settings, consumer: str, *, stop: asyncio.Event, stack: AsyncExitStack
) -> Plant:
    topics = settings.topics
    redis = await stack.enter_async_context(redis_client(settings))
    blocking = await stack.enter_async_context(blocking_redis(settings))
    keys = settings.keys
    await until_ready("redis", partial(check_redis, redis, keys), stop=stop)
    make_topics = partial(ensure_topics, settings.KAFKA_HOSTS, topics, settings.topic_shape)
    await until_ready("kafka", make_topics, stop=stop)
    return Plant(
        settings=settings,
        topics=topics,
        keys=keys,
        redis=redis,
        blocking=blocking,
        sink=await stack.enter_async_context(_sink(settings)),
        frontier=Frontier(redis, keys, _limits(settings)),
        editor=ThrottleEditor(
            settings.ZOOKEEPER_HOSTS, settings.throttle_path, default=settings.default_rule
        ),
        tally=Tally(redis, keys),
        consumer=consumer,
    )


def _limits(settings: Settings) -> FrontierLimits:
    return FrontierLimits(
        finish_grace_ms=int(settings.finish_grace * 1000),
        dedupe_ms=settings.DUPEFILTER_TIMEOUT * 1000,
        max_wait_ms=int(settings.max_wait * 1000),
        most_queued_of_crawl=settings.max_queued_crawl,
        most_queued=settings.max_queued,
    )


def _sink(settings: Settings) -> KafkaSink:
    return KafkaSink(
        settings.KAFKA_HOSTS,
        client_id="redis-monitor",
        shape=settings.topic_shape,
        codec=settings.KAFKA_COMPRESSION,
    )


def _answering(plant: Plant) -> Duty:
    context = Context(
        frontier=plant.frontier,
        redis=plant.redis,
        keys=plant.keys,
        editor=plant.editor,
        tally=plant.tally,
    )
    pulse = Pulse("answer")
    answers = Answers(
        plant.streams,
        load_actions(context),
        outbound=plant.outbound,
        tally=plant.tally,
        pulse=pulse,
    )
    return Duty(pulse, answers.step)


def _publishing(plant: Plant) -> Duty:
    pulse = Pulse("publish")
    ledger = Ledger(
        plant.streams,
        outbound=plant.outbound,
        tally=plant.tally,
        pulse=pulse,
    )
    return Duty(pulse, ledger.step)


@asynccontextmanager
async def _tending(plant: Plant) -> AsyncIterator[Duty]:
    sleeper = Sleeper(plant.blocking, plant.keys, "tend")
    await sleeper.start()
    try:
        yield Duty(Pulse("tend"), Reaper(plant.frontier, sleeper).step)
    finally:
        await sleeper.stop()


def _rules(plant: Plant) -> Rules:
    settings = plant.settings
    watch = partial(
        ThrottleWatch,
        settings.ZOOKEEPER_HOSTS,
        settings.throttle_path,
        default=settings.default_rule,
    )
    return Rules(
        plant.frontier,
        plant.editor,
        lambda on_table: watch(on_table=on_table),
        scope=settings.throttle_scope,
    )


@asynccontextmanager
async def _copying_rules(rules: Rules) -> AsyncIterator[Duty]:
    try:
        yield Duty(Pulse("rules"), rules.step)
    finally:
        await rules.stop()


def _auditing(plant: Plant) -> Duty:
    return Duty(Pulse("audit"), Audit(plant.frontier).step)


def _looking(plant: Plant, rules: Rules) -> Duty:
    figures = Figures(
        plant.settings, plant.redis, keys=plant.keys, is_watched=lambda: rules.is_connected
    )
    return Duty(Pulse("figures"), figures.step)


def _forgetting(plant: Plant) -> Duty:
    history = History(plant.redis, plant.keys)

    async def step() -> float:
        await history.forget_machines()
        return FORGET_EVERY_S

    return Duty(Pulse("stats"), step)


async def _until(stop: asyncio.Event, duties: Sequence[Duty]) -> None:
    """Run all duties; each ends with its step at hand once ``stop`` is set."""
    working = [asyncio.create_task(duty.run(stop), name=duty.pulse.name) for duty in duties]
    await stop.wait()
    await asyncio.wait(working, timeout=DRAIN_S)
    await end(working)


def _health(duties: Sequence[Duty]) -> Health:
    waiting = [f"{d.pulse.name}: {d.pulse.waiting_for}" for d in duties if d.pulse.waiting_for]
    failing = {duty.pulse.name: duty.failure for duty in duties if duty.failure}
    return Health(
        alive=not any(duty.pulse.is_stuck for duty in duties),
        waiting_for="; ".join(waiting),
        details={"failing": failing},
    )
