"""One redis-monitor process: its clients, its tasks, its orderly end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.boot.clients import kafka_of, shelf_of
from crawlstream.boot.health import Health, serve
from crawlstream.boot.liveness import Liveness
from crawlstream.boot.log import configure
from crawlstream.boot.redis.check import agree_later, check_frontiers
from crawlstream.boot.redis.servers import open_frontiers
from crawlstream.boot.settings import Settings
from crawlstream.boot.signals import Stop
from crawlstream.boot.startup import until_ready
from crawlstream.boot.variables import told
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_sink
from crawlstream.bus.history import topic_id_of
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.protocols import Sink
from crawlstream.bus.topics import ensure_topics
from crawlstream.frontier.frontier import Frontier
from crawlstream.frontier.maintenance import FrontierLimits
from crawlstream.frontier.partitions.frontiers import Frontiers
from crawlstream.frontier.partitions.labelling import Labelling
from crawlstream.keys import FrontierKeys, Topics
from crawlstream.model.process import Process
from crawlstream.model.throttle import ThrottleTable
from crawlstream.plugins import Context
from crawlstream.stats.heartbeat import Heartbeat
from crawlstream.stats.history import History
from crawlstream.stats.rule_history import note_changes
from crawlstream.stats.tally import Tally
from crawlstream.tasks import beside, end
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream.throttle.watch import ThrottleWatch
from redis_monitor.action_runner import ActionRunner
from redis_monitor.actions import load_actions
from redis_monitor.cluster_metrics import ClusterMetrics
from redis_monitor.ledger_audit import LedgerAudit
from redis_monitor.maintenance import Maintenance
from redis_monitor.notify.assembly import notifying
from redis_monitor.notify.problems import Cluster
from redis_monitor.outbox import OutboxPublisher
from redis_monitor.partitions.endings import Endings
from redis_monitor.partitions.homes import Homes
from redis_monitor.periodic import PeriodicTask
from redis_monitor.pool_sync import PoolSync
from redis_monitor.schedules.duty import ScheduleDuty
from redis_monitor.schedules.seeds import SeedReader
from redis_monitor.shelving import Shelving
from redis_monitor.table_sync import TableSync
from redis_monitor.throttle_sync import ThrottleSync

SHARED = (
    *("dupefilter_timeout", "finish_grace", "max_wait", "max_queued_crawl", "max_queued"),
    "shelve_at",
)
"""Settings by which any of several redis-monitors must end crawls, and shelve pages, alike."""
DRAIN_S = 10.0
"""How long the steps at hand may take after a stop; what is cut off is taken over by another."""

FORGET_EVERY_S = 3600.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the tasks work with."""

    settings: Settings
    topics: Topics
    kafka: Kafka
    sink: Sink
    frontiers: Frontiers
    labelling: Labelling
    editor: ThrottleEditor
    tally: Tally
    consumer: str
    """Name of this process in the consumer groups."""

    @property
    def frontier(self) -> Frontier:
        """The partition that has what belongs to no domain and no crawl."""
        return self.frontiers.root

    @property
    def redis(self) -> Redis:
        """Where that is."""
        return self.frontiers.servers[0].redis

    @property
    def keys(self) -> FrontierKeys:
        """Its keys."""
        return self.frontier.scripts.keys

    @property
    def outbound(self) -> Outbound:
        """Where replies go."""
        return Outbound(self.sink, self.topics, per_app=self.settings.kafka_appid_topics)


async def run(settings: Settings) -> None:
    """Answer, publish and tend until SIGTERM or SIGINT."""
    configure(settings, "redis-monitor")
    stop = Stop()
    async with AsyncExitStack() as stack:
        values = {**told(settings, *SHARED), "CRAWLSTREAM_SHELF": settings.shelf_address}
        process = Process(kind="redis-monitor", values=values)
        resources = await _resources(settings, process.node, stop=stop, stack=stack)
        first, *others = resources.frontiers.heartbeats
        heartbeat = Heartbeat(*first, process, also=others)
        await resources.frontier.rules.agree(settings.throttle_scope)
        await until_ready("redis", heartbeat.join, stop=stop)
        pools = PoolSync(resources.frontier.pools, settings.zookeeper_hosts, settings.proxies_path)
        rules = [_rules(resources, p, pools) for p in range(len(resources.frontiers))]
        tasks = [
            *[
                task
                for p, its in enumerate(rules)
                for task in await _of_partition(resources, p, its, stack)
            ],
            await stack.enter_async_context(_copying(pools)),
            _cluster_metrics(resources, rules[0]),
            _schedules(resources),
            _forget_stats(resources),
        ]
        helpers = (resources.tally.run(), heartbeat.run(), *_notifying(resources, process))
        await stack.enter_async_context(beside(*helpers))
        health = partial(_health, tasks)
        port, host = settings.metrics_port, settings.metrics_host
        await stack.enter_async_context(serve(port, health, host=host))
        log.info("start", node=process.node)
        await _until(stop, tasks)
    log.info("end")


async def _resources(
    settings: Settings, consumer: str, *, stop: asyncio.Event, stack: AsyncExitStack
) -> Resources:
    topics = settings.topics
    shelf = await stack.enter_async_context(shelf_of(settings))
    frontiers = await stack.enter_async_context(open_frontiers(settings, _limits(settings), shelf))
    missing = await until_ready("redis", partial(check_frontiers, frontiers), stop=stop)
    await stack.enter_async_context(beside(agree_later(frontiers, missing or (), stop)))
    kafka = kafka_of(settings, "redis-monitor")
    ensure = partial(ensure_topics, kafka, topics, len(frontiers))
    await until_ready("kafka", ensure, stop=stop)
    labelling = Labelling(frontiers)
    stack.push_async_callback(labelling.stop)
    root = frontiers.root.scripts
    return Resources(
        settings=settings,
        topics=topics,
        kafka=kafka,
        sink=await stack.enter_async_context(make_sink(kafka)),
        frontiers=frontiers,
        labelling=labelling,
        editor=ThrottleEditor(
            settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
        ),
        tally=Tally(root.redis, root.keys),
        consumer=consumer,
    )


async def _of_partition(
    resources: Resources, partition: int, rules: ThrottleSync, stack: AsyncExitStack
) -> list[PeriodicTask]:
    """What is done for each partition of the frontier."""
    tasks = [
        _actions(resources, partition),
        _outbox(resources, partition),
        await stack.enter_async_context(_maintenance(resources, partition)),
        await stack.enter_async_context(_shelving(resources, partition)),
        await stack.enter_async_context(_copying(rules)),
        _ledger_audit(resources, partition),
    ]
    if len(resources.frontiers) > 1:
        tasks.append(_endings(resources, partition))
    return tasks


def _limits(settings: Settings) -> FrontierLimits:
    return FrontierLimits(
        finish_grace_ms=int(settings.finish_grace * 1000),
        dedupe_ms=settings.dupefilter_timeout * 1000,
        max_wait_ms=int(settings.max_wait * 1000),
        most_queued_of_crawl=settings.max_queued_crawl,
        most_queued=settings.max_queued,
        shelve_from=settings.shelve_at,
    )


def _endings(resources: Resources, partition: int) -> PeriodicTask:
    endings = Endings(
        resources.frontiers,
        partition,
        resources.labelling,
        grace_ms=int(resources.settings.finish_grace * 1000),
        links_topic=partial(topic_id_of, resources.kafka, resources.topics.links),
    )
    return PeriodicTask(Liveness("homes"), endings.step)


def _actions(resources: Resources, partition: int) -> PeriodicTask:
    context = Context(
        frontier=resources.frontier.queries,
        redis=resources.redis,
        keys=resources.keys,
        editor=resources.editor,
        tally=resources.tally,
    )
    liveness = Liveness("answer")
    runner = ActionRunner(
        resources.frontiers.streams(partition, resources.consumer),
        load_actions(context),
        outbound=resources.outbound,
        tally=resources.tally,
        liveness=liveness,
    )
    return PeriodicTask(liveness, runner.step)


def _outbox(resources: Resources, partition: int) -> PeriodicTask:
    liveness = Liveness("publish")
    frontiers = resources.frontiers
    is_whole = len(frontiers) == 1
    publisher = OutboxPublisher(
        frontiers.streams(partition, resources.consumer),
        outbound=resources.outbound,
        tally=resources.tally,
        liveness=liveness,
        homes=None if is_whole else Homes(partition, frontiers[partition].home),
    )
    return PeriodicTask(liveness, publisher.step)


def _schedules(resources: Resources) -> PeriodicTask:
    liveness = Liveness("fire")
    duty = ScheduleDuty(
        resources.frontier.schedules,
        resources.frontier.queries,
        sink=resources.sink,
        incoming=resources.topics.incoming,
        name=resources.consumer,
        liveness=liveness,
        reader=SeedReader(resources.settings.seed_stores),
    )
    return PeriodicTask(liveness, duty.step)


@asynccontextmanager
async def _maintenance(resources: Resources, partition: int) -> AsyncIterator[PeriodicTask]:
    sleeper = resources.frontiers.sleeper(partition, "tend")
    maintenance = resources.frontiers[partition].maintenance
    await sleeper.start()
    try:
        yield PeriodicTask(Liveness("tend"), Maintenance(maintenance, sleeper).step)
    finally:
        await sleeper.stop()


@asynccontextmanager
async def _shelving(resources: Resources, partition: int) -> AsyncIterator[PeriodicTask]:
    sleeper = resources.frontiers.sleeper(partition, "shelf")
    stocking = resources.frontiers[partition].stocking
    await sleeper.start()
    try:
        yield PeriodicTask(Liveness("shelve"), Shelving(stocking, sleeper).step)
    finally:
        await sleeper.stop()


def _rules(resources: Resources, partition: int, pools: PoolSync) -> ThrottleSync:
    settings = resources.settings
    watch = partial(
        ThrottleWatch,
        settings.zookeeper_hosts,
        settings.throttle_path,
        default=settings.default_rule,
    )
    return ThrottleSync(
        resources.frontiers[partition].rules,
        resources.editor,
        lambda on_table, on_alarm: watch(on_table=on_table, on_alarm=on_alarm),
        scope=settings.throttle_scope,
        on_copied=partial(_note_changes, resources) if partition == 0 else _nothing,
        before_first=pools.be_first,
    )


async def _nothing(_before: ThrottleTable, _after: ThrottleTable) -> None:
    """What changes is noted once, with the first partition."""


async def _note_changes(resources: Resources, before: ThrottleTable, after: ThrottleTable) -> None:
    """For people: rules rule whether or not their history can be written."""
    try:
        await note_changes(resources.redis, resources.keys, before, after)
    except RedisError as error:
        log.warning("rules", outcome="not_noted", error=str(error))


@asynccontextmanager
async def _copying(table: TableSync[Any]) -> AsyncIterator[PeriodicTask]:
    try:
        yield PeriodicTask(Liveness(table.event), table.step)
    finally:
        await table.stop()


def _ledger_audit(resources: Resources, partition: int) -> PeriodicTask:
    frontier = resources.frontiers[partition]
    audit = LedgerAudit(frontier.maintenance, frontier.queries)
    return PeriodicTask(Liveness("audit"), audit.step)


def _cluster_metrics(resources: Resources, rules: ThrottleSync) -> PeriodicTask:
    metrics = ClusterMetrics(
        resources.settings,
        resources.kafka,
        redis=resources.redis,
        keys=resources.keys,
        frontier=resources.frontier,
        is_watched=lambda: rules.is_connected,
    )
    return PeriodicTask(Liveness("figures"), metrics.step)


def _forget_stats(resources: Resources) -> PeriodicTask:
    history = History(resources.redis, resources.keys)

    async def step() -> float:
        await history.forget_machines()
        return FORGET_EVERY_S

    return PeriodicTask(Liveness("stats"), step)


def _notifying(resources: Resources, process: Process) -> Sequence[Coroutine[Any, Any, None]]:
    settings = resources.settings
    cluster = Cluster(
        redis=resources.redis,
        keys=resources.keys,
        queries=resources.frontier.queries,
        kafka=resources.kafka,
        rejected=resources.topics.rejected,
        process=process,
        name=settings.kafka_topic_prefix,
    )
    return notifying(settings, cluster)


async def _until(stop: asyncio.Event, tasks: Sequence[PeriodicTask]) -> None:
    """Run all tasks; each ends with its step at hand once ``stop`` is set."""
    working = [asyncio.create_task(task.run(stop), name=task.liveness.name) for task in tasks]
    await stop.wait()
    await asyncio.wait(working, timeout=DRAIN_S)
    await end(working)


def _health(tasks: Sequence[PeriodicTask]) -> Health:
    waiting = [
        f"{d.liveness.name}: {d.liveness.waiting_for}" for d in tasks if d.liveness.waiting_for
    ]
    failing = {task.liveness.name: task.failure for task in tasks if task.failure}
    return Health(
        alive=not any(task.liveness.is_stuck for task in tasks),
        waiting_for="; ".join(waiting),
        details={"failing": failing},
    )
