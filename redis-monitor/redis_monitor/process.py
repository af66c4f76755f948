"""Process of a redis-monitor: its clients, its tasks, its orderly end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.health import Health, serve
from crawlstream.boot.liveness import Liveness
from crawlstream.boot.log import configure
from crawlstream.boot.settings import Settings
from crawlstream.boot.signals import Stop
from crawlstream.boot.startup import until_ready
from crawlstream.boot.variables import values_of
from crawlstream.bus.access.rights import Rights, check_rights
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_sink
from crawlstream.bus.history import topic_id_of
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.protocols import Sink
from crawlstream.bus.topics import ensure_topics
from crawlstream.keys import FrontierKeys, Topics
from crawlstream.model.process import Process
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.plugins import Context
from crawlstream.stats.heartbeat import Heartbeat
from crawlstream.stats.tally import Tally
from crawlstream.tasks import beside, end
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream_frontier.maintenance import FrontierLimits
from crawlstream_frontier.opening.identity import check_cluster, join_cluster
from crawlstream_frontier.opening.servers import open_frontiers, shelf_of
from crawlstream_frontier.opening.startup_check import agree_later, check_frontiers
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.partitions.labelling import Labelling
from crawlstream_frontier.rule_history import note_changes
from redis_monitor.actions.counter_history import CounterHistory
from redis_monitor.cluster_metrics import ClusterMetrics
from redis_monitor.ledger_audit import LedgerAudit
from redis_monitor.notify.channels import notifying
from redis_monitor.notify.problems import Cluster
from redis_monitor.partition_duties import PartitionDuties
from redis_monitor.periodic import PeriodicTask
from redis_monitor.pool_sync import PoolSync
from redis_monitor.schedules.duty import ScheduleDuty
from redis_monitor.schedules.seed_reader import SeedReader
from redis_monitor.sharing import Sharing
from redis_monitor.table_sync import TableSync
from redis_monitor.throttle_sync import ThrottleSync
from redis_monitor.throttle_watch import ThrottleWatch

SHARED = (
    *("dupefilter_timeout", "finish_grace", "max_wait", "max_queued_crawl", "max_queued"),
    "shelve_at",
)
"""Settings by which any of several redis-monitors must end crawls, and shelve pages, alike."""
DRAIN_S = 10.0
"""Time that current steps may take after a stop; another process takes over the unfinished ones."""

FORGET_EVERY_S = 3600.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Clients and settings that the tasks work with."""

    settings: Settings
    topics: Topics
    keys: FrontierKeys
    kafka: Kafka
    redis: Redis
    sink: Sink
    frontier: Frontiers
    editor: ThrottleEditor
    tally: Tally
    consumer: str
    """Name of this process in the consumer groups."""

    @property
    def outbound(self) -> Outbound:
        """Return where replies go."""
        return Outbound(self.sink, self.topics, per_app=self.settings.kafka_appid_topics)


async def run(settings: Settings) -> None:
    """Answer, publish and tend until SIGTERM or SIGINT."""
    configure(settings, "redis-monitor")
    stop = Stop()
    async with AsyncExitStack() as stack:
        values = {**values_of(settings, *SHARED), "CRAWLSTREAM_SHELF": settings.shelf_address}
        process = Process(kind="redis-monitor", values=values)
        resources, missing = await _resources(settings, process.node, stop=stop, stack=stack)
        first, *also = resources.frontier.heartbeats
        heartbeat = Heartbeat(*first, process, also=also)
        join = partial(join_cluster, settings, resources.frontier, rules=True)
        await until_ready("redis", join, stop=stop)
        await resources.frontier.rules.agree(settings.throttle_scope)
        await until_ready("redis", heartbeat.join, stop=stop)
        pools = PoolSync(resources.frontier.pools, settings.zookeeper_hosts, settings.proxies_path)
        rules = _rules(resources, pools)
        sharing = Sharing(resources.frontier, process.name)
        duties = _duties(resources, sharing)
        tasks = [
            *duties.actions(_context(resources)),
            *duties.outboxes(),
            *await stack.enter_async_context(duties.maintenance()),
            *await _endings(resources, duties, stack),
            await stack.enter_async_context(_copying(pools)),
            await stack.enter_async_context(_copying(rules)),
            _ledger_audit(resources),
            _cluster_metrics(resources, rules),
            _schedules(resources),
            _forget_stats(resources),
        ]
        helpers = (
            *(resources.tally.run(), heartbeat.run(), sharing.run()),
            agree_later(resources.frontier, missing, stop, "away", join=join),
            *_notifying(resources, process),
        )
        await stack.enter_async_context(beside(*helpers))
        health = partial(_health, tasks)
        port, host = settings.metrics_port, settings.metrics_host
        await stack.enter_async_context(serve(port, health, host=host))
        log.info("start", node=process.node)
        await _until(stop, tasks)
    log.info("end")


async def _resources(
    settings: Settings, consumer: str, *, stop: asyncio.Event, stack: AsyncExitStack
) -> tuple[Resources, Collection[int]]:
    """Return the resources of the tasks, and the partitions that are unavailable."""
    topics = settings.topics
    shelf = await stack.enter_async_context(shelf_of(settings))
    frontiers = await stack.enter_async_context(open_frontiers(settings, _limits(settings), shelf))
    redis, keys = frontiers.heartbeats[0]
    missing = await until_ready("redis", partial(check_frontiers, frontiers, "away"), stop=stop)
    await until_ready("redis", partial(check_cluster, settings, frontiers), stop=stop)
    kafka = kafka_of(settings, "redis-monitor")
    ensure = partial(ensure_topics, kafka, topics, len(frontiers))
    await until_ready("kafka", ensure, stop=stop)
    written = (topics.outbound, topics.events, topics.rejected, topics.runs, topics.schedules)
    rights = Rights(writes=[*written, topics.incoming])
    await until_ready("kafka", partial(check_rights, kafka, rights), stop=stop)
    resources = Resources(
        settings=settings,
        topics=topics,
        keys=keys,
        kafka=kafka,
        redis=redis,
        sink=await stack.enter_async_context(make_sink(kafka)),
        frontier=frontiers,
        editor=ThrottleEditor(
            settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
        ),
        tally=Tally(redis, keys),
        consumer=consumer,
    )
    return resources, missing.keys()


def _limits(settings: Settings) -> FrontierLimits:
    return FrontierLimits(
        finish_grace_ms=int(settings.finish_grace * 1000),
        dedupe_ms=settings.dupefilter_timeout * 1000,
        max_wait_ms=int(settings.max_wait * 1000),
        most_queued_of_crawl=settings.max_queued_crawl,
        most_queued=settings.max_queued,
        shelve_from=settings.shelve_at,
    )


def _duties(resources: Resources, sharing: Sharing) -> PartitionDuties:
    return PartitionDuties(
        resources.frontier,
        sharing,
        resources.consumer,
        outbound=resources.outbound,
        tally=resources.tally,
    )


async def _endings(
    resources: Resources, duties: PartitionDuties, stack: AsyncExitStack
) -> Sequence[PeriodicTask]:
    labelling = Labelling(resources.frontier)
    stack.push_async_callback(labelling.stop)
    endings = duties.endings(
        labelling,
        grace_ms=int(resources.settings.finish_grace * 1000),
        dedupe_ms=resources.settings.dupefilter_timeout * 1000,
        links_topic=partial(topic_id_of, resources.kafka, resources.topics.links),
    )
    return await stack.enter_async_context(endings)


def _context(resources: Resources) -> Context:
    return Context(
        frontier=resources.frontier.queries,
        redis=resources.redis,
        keys=resources.keys,
        editor=resources.editor,
        tally=resources.tally,
    )


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


def _rules(resources: Resources, pools: PoolSync) -> ThrottleSync:
    settings = resources.settings
    watch = partial(
        ThrottleWatch,
        settings.zookeeper_hosts,
        settings.throttle_path,
        default=settings.default_rule,
    )
    return ThrottleSync(
        resources.frontier.rules,
        resources.editor,
        lambda on_table, on_alarm: watch(on_table=on_table, on_alarm=on_alarm),
        scope=settings.throttle_scope,
        on_copied=partial(_note_changes, resources),
        before_first=pools.be_first,
    )


async def _note_changes(resources: Resources, before: ThrottleTable, after: ThrottleTable) -> None:
    """Write the history of rules, for people; rules apply even if that fails."""
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


def _ledger_audit(resources: Resources) -> PeriodicTask:
    return PeriodicTask(Liveness("audit"), LedgerAudit(resources.frontier).step)


def _cluster_metrics(resources: Resources, rules: ThrottleSync) -> PeriodicTask:
    metrics = ClusterMetrics(
        resources.settings,
        resources.kafka,
        frontier=resources.frontier,
        is_watched=lambda: rules.is_connected,
    )
    return PeriodicTask(Liveness("figures"), metrics.step)


def _forget_stats(resources: Resources) -> PeriodicTask:
    history = CounterHistory(resources.redis, resources.keys)

    async def step() -> float:
        await history.forget_machines()
        return FORGET_EVERY_S

    return PeriodicTask(Liveness("stats"), step)


def _notifying(resources: Resources, process: Process) -> Sequence[Coroutine[Any, Any, None]]:
    settings = resources.settings
    cluster = Cluster(
        frontier=resources.frontier,
        kafka=resources.kafka,
        rejected=resources.topics.rejected,
        process=process,
        name=settings.kafka_topic_prefix,
    )
    return notifying(settings, cluster)


async def _until(stop: asyncio.Event, tasks: Sequence[PeriodicTask]) -> None:
    """Run all tasks; once ``stop`` is set, each ends after its current step."""
    working = [asyncio.create_task(task.run(stop), name=task.name) for task in tasks]
    await stop.wait()
    await asyncio.wait(working, timeout=DRAIN_S)
    await end(working)


def _health(tasks: Sequence[PeriodicTask]) -> Health:
    waiting = [f"{d.name}: {d.liveness.waiting_for}" for d in tasks if d.liveness.waiting_for]
    failing = {task.name: task.failure for task in tasks if task.failure}
    return Health(
        alive=not any(task.liveness.is_stuck for task in tasks),
        waiting_for="; ".join(waiting),
        details={"failing": failing},
    )
