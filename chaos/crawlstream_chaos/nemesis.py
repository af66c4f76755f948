"""The nemesis: every fault that can be done to a cluster, each as one function with a name.

A fault strikes, lasts, and is over when its function returns: what it froze is thawed, what it
killed is started again, by supervisor or by itself. All chance comes from a seed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from kafka.admin import KafkaAdminClient, NewPartitions
from kafka.errors import KafkaError
from kazoo.client import KazooClient
from kazoo.retry import KazooRetry
from redis.asyncio import Redis

from crawlstream.boot.failpoints import ANSWERED_STEPS, PAID_STEPS, STEPS
from crawlstream.tasks import wait_until
from crawlstream_chaos.cluster import ChaosCluster
from crawlstream_chaos.facts.facts import EMPTIES_SHELF
from crawlstream_chaos.faults import BACK_S, Fault, FaultContext, FaultEffect, Inject, leased
from crawlstream_chaos.stores.struck_servers import SEARCH
from crawlstream_chaos.strikes.browsers import OF_RENDERERS
from crawlstream_chaos.strikes.extra_processes import (
    dies_at,
    err_in_time,
    freeze_past_deadline,
    join_and_leave,
)
from crawlstream_chaos.strikes.partition_faults import OF_PARTITIONS
from crawlstream_chaos.strikes.pipeline_faults import OF_PIPELINES
from crawlstream_chaos.strikes.redis import OF_REDIS
from crawlstream_chaos.strikes.rotation import ROTATION
from crawlstream_chaos.strikes.truncated_log import lose_end_of_log
from crawlstream_chaos.strikes.victims import ends, freezes, kills

_FILLED_S = 20
"""Within this something is on the shelf, if pages wait."""

# Servers.


def _kills_server(name: str) -> Inject:
    async def kill(context: FaultContext) -> FaultEffect:
        cluster = context.cluster
        async with cluster.turns[name]:
            in_flight, server = await leased(context), cluster.servers[name]
            await cluster.by_hand(name, server.kill)
            await asyncio.sleep(context.between(0, 10 if context.is_long else 1))
            await cluster.by_hand(name, server.start)
        return FaultEffect(name, in_flight)

    return kill


def _freezes_server(name: str) -> Inject:
    async def freeze(context: FaultContext) -> FaultEffect:
        async with context.cluster.turns[name]:
            in_flight, pid = await leased(context), context.cluster.servers[name].pid
            context.cluster.freeze(pid)
            try:
                await asyncio.sleep(context.between(1, 30 if context.is_long else 4))
            finally:
                context.cluster.thaw(pid)
        return FaultEffect(name, in_flight)

    return freeze


_AWAY_S = 30
"""Longer than any client waits for an answer about topics."""


async def keep_kafka_away(context: FaultContext) -> FaultEffect:
    """Freeze Kafka for so long that its clients give up what they have asked."""
    async with context.cluster.turns["kafka"]:
        in_flight, pid = await leased(context), context.cluster.servers["kafka"].pid
        context.cluster.freeze(pid)
        try:
            await asyncio.sleep(_AWAY_S)
        finally:
            context.cluster.thaw(pid)
    return FaultEffect("kafka", in_flight)


async def empty_shelf(context: FaultContext) -> FaultEffect:
    """Everything that is on the shelf is gone; a shelf that has nothing is waited for."""
    cluster = context.cluster
    async with Redis(port=cluster.servers["shelf"].port, socket_timeout=2) as shelf:
        with suppress(TimeoutError):
            await wait_until(shelf.dbsize, timeout_s=_FILLED_S, every_s=0.1)
        chunks = await shelf.dbsize()
        await shelf.flushall()
    return FaultEffect(f"{chunks} chunks", has_struck=chunks > 0)


_MOST_PARTITIONS = 12


async def add_partitions(context: FaultContext) -> FaultEffect:
    """``incoming`` gets one more partition: what is fed from now on spreads in another way."""
    cluster = context.cluster
    count = None
    while count is None:
        # Its clients are led through the proxy, which another fault may have in its hands.
        with suppress(KafkaError):
            async with cluster.turns["kafka"]:
                count = await cluster.by_hand("kafka", _add_a_partition, cluster)
    return FaultEffect(f"{count} partitions", has_struck=count <= _MOST_PARTITIONS)


def _add_a_partition(cluster: ChaosCluster) -> int:
    """Return how many there are then, or would be one too many."""
    topic = cluster.settings.topics.incoming
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{cluster.servers['kafka'].port}")
    try:
        (known,) = admin.describe_topics([topic])
        count = len(known["partitions"]) + 1
        if count <= _MOST_PARTITIONS:
            admin.create_partitions({topic: NewPartitions(total_count=count)})
        return count
    finally:
        admin.close()


# The network.


def _cuts(name: str) -> Inject:
    async def cut(context: FaultContext) -> FaultEffect:
        in_flight = await leased(context)
        context.cluster.proxies[name].cut()
        return FaultEffect(name, in_flight)

    return cut


def _disturbs(name: str, how: str) -> Inject:
    async def disturb(context: FaultContext) -> FaultEffect:
        proxy, delay = context.cluster.proxies[name], context.between(0.02, 0.4)
        ways = {"slow": proxy.slow(delay), "mute": proxy.mute(), "half-open": proxy.half_open()}
        async with context.cluster.turns[f"network of {name}"], ways[how]:
            in_flight = await leased(context)
            await asyncio.sleep(context.between(0.5, 8 if context.is_long else 2))
        return FaultEffect(name, in_flight)

    return disturb


# Rules.


async def break_rules(context: FaultContext) -> FaultEffect:
    """Empty or break the node with the rules, and restore it."""
    how = context.random.choice(["broken", "emptied"])
    seconds = context.between(1, 10 if context.is_long else 2)
    async with context.cluster.turns["rules"]:
        await asyncio.to_thread(_spoil, context.cluster, how, seconds)
    return FaultEffect(f"rules {how}")


def _spoil(cluster: ChaosCluster, how: str, seconds: float) -> None:
    client = KazooClient(",".join(cluster.settings.zookeeper_hosts))
    # Another fault may have ZooKeeper in its hands: what was spoilt is mended all the same.
    patiently = KazooRetry(max_tries=-1, deadline=BACK_S, max_delay=1)
    client.start(BACK_S)
    try:
        path = cluster.settings.throttle_path
        kept, _ = patiently(client.get, path)
        patiently(client.set, path, b"" if how == "emptied" else b"domains: [: {")
        time.sleep(seconds)
        patiently(client.set, path, kept)
    finally:
        client.stop()
        client.close()


_KINDS = ("crawler", "kafka-monitor", "redis-monitor", "rest")
_SERVERS = ("kafka", "zookeeper")
_NETWORKS = ("kafka",)


def _faults() -> list[Fault]:
    found = []
    for kind in _KINDS:
        found += [
            Fault(f"kill-{kind}", f"kill -9 of a {kind}", kills(kind)),
            Fault(f"freeze-{kind}", f"SIGSTOP of a {kind} for seconds, then CONT", freezes(kind)),
            Fault(f"end-{kind}", f"TERM of a {kind}", ends(kind)),
        ]
    for name in _SERVERS:
        found += [
            Fault(f"kill-{name}", f"kill -9 of {name}, and a new start", _kills_server(name)),
            Fault(f"freeze-{name}", f"SIGSTOP of {name} for seconds", _freezes_server(name)),
        ]
    for name in _NETWORKS:
        found += [
            Fault(f"cut-{name}", f"all connections to {name} are cut", _cuts(name)),
            Fault(f"slow-{name}", f"20 to 400 ms more to and from {name}", _disturbs(name, "slow")),
            Fault(
                f"mute-{name}",
                f"what is asked of {name} takes effect, the replies are lost",
                _disturbs(name, "mute"),
            ),
            Fault(
                f"half-open-{name}",
                f"connections to {name} stay, nothing passes",
                _disturbs(name, "half-open"),
            ),
        ]
    return found


def _of_store(name: str, title: str) -> list[Fault]:
    """Return the faults of a server that only some clusters have."""
    return [
        Fault(f"kill-{name}", f"kill -9 of {title}, and a new start", _kills_server(name)),
        Fault(f"freeze-{name}", f"SIGSTOP of {title} for seconds", _freezes_server(name)),
        Fault(f"cut-{name}", f"all connections to {title} are cut", _cuts(name)),
        Fault(
            f"mute-{name}",
            f"what is asked of {title} takes effect, the replies are lost",
            _disturbs(name, "mute"),
        ),
    ]


def _if_there(name: str, inject: Inject) -> Inject:
    async def strike(context: FaultContext) -> FaultEffect:
        if name in context.cluster.servers:
            return await inject(context)
        return FaultEffect(f"there is no {name}", has_struck=False)

    return strike


def _some(*faults: Fault) -> list[Fault]:
    return [replace(fault, is_for_all=False) for fault in faults]


OF_SHELF = _some(
    *_of_store("shelf", "the shelf"),
    Fault(EMPTIES_SHELF, "the shelf loses everything: what is lost is told", empty_shelf),
)
OF_SEARCH = [
    replace(fault, inject=_if_there(SEARCH, fault.inject))
    for fault in _some(*_of_store(SEARCH, "the search server"))
]
"""They need pipelines; in a cluster that began with the version before they strike nothing."""
FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        *_faults(),
        *OF_REDIS,
        *OF_PARTITIONS,
        *OF_SHELF,
        *OF_SEARCH,
        *OF_RENDERERS,
        Fault(
            "away-kafka", "SIGSTOP of kafka for half a minute", keep_kafka_away, is_for_all=False
        ),
        Fault("add-partitions", "one more partition of incoming", add_partitions),
        Fault(
            "truncate-log",
            "a partition of incoming loses its end, and a person decides how it goes on",
            lose_end_of_log,
            is_for_all=False,
        ),
        Fault("break-rules", "ZooKeeper's node emptied or broken, and mended", break_rules),
        Fault("die-at-step", "a crawler dies between two steps of a page", dies_at(STEPS)),
        Fault(
            "die-paying",
            "a crawler dies before or behind a request that offers a price",
            dies_at(PAID_STEPS),
            is_for_all=False,
        ),
        Fault(
            "die-answering",
            "a crawler dies between a result and the reply to the client that waits for it",
            dies_at(ANSWERED_STEPS),
            is_for_all=False,
        ),
        Fault(
            "freeze-long",
            "a crawler frozen at some step past its deadline (33 s), then continued",
            freeze_past_deadline,
            is_for_all=False,
        ),
        Fault("wrong-clock", "two more crawlers, an hour fast and an hour slow", err_in_time),
        Fault("rebalance", "one more kafka-monitor comes and goes", join_and_leave),
        ROTATION,
        *OF_PIPELINES,
    )
}
