"""The nemesis: every fault that can be done to a cluster, each as one function with a name.

A fault strikes, lasts, and is over when its function returns: what it froze is thawed, what it
killed is started again, by supervisor or by itself. All chance comes from a seed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from kafka.admin import KafkaAdminClient, NewPartitions
from kafka.errors import KafkaError
from kazoo.client import KazooClient
from redis.exceptions import RedisError

from chaos.blows import BACK_S, Blow, Fault, Reach, Strike, held
from chaos.guests import die_at_a_step, err_in_time, freeze_past_deadline, join_and_leave
from chaos.lost_log import lose_end_of_log
from chaos.stage import REDIS_BYTES, Stage
from crawlstream.keys import FrontierKeys
from crawlstream.tasks import beside
from support.waiting import wait_until

_FOLLOW_EVERY_S = 0.3
"""How often the limit of a Redis that is kept full follows what it uses."""

# Processes.


def _kills(kind: str) -> Strike:
    async def kill(reach: Reach) -> Blow:
        """Frozen first, so that what it holds can be counted when it dies."""
        name, pid = await _frozen(reach, kind)
        in_flight = await held(reach) if kind == "crawler" else None
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        reach.stage.thaw(pid)
        return Blow(name, in_flight)

    return kill


def _ends(kind: str) -> Strike:
    async def end(reach: Reach) -> Blow:
        name, pid = await _victim(reach, kind)
        in_flight = await held(reach) if kind == "crawler" else None
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        return Blow(name, in_flight)

    return end


def _freezes(kind: str) -> Strike:
    async def freeze(reach: Reach) -> Blow:
        """Shorter than what makes the health listener kill it."""
        name, pid = await _frozen(reach, kind)
        try:
            in_flight = await held(reach) if kind == "crawler" else None
            await asyncio.sleep(reach.between(1, 12 if reach.is_long else 3))
        finally:
            reach.stage.thaw(pid)
        return Blow(name, in_flight)

    return freeze


async def _frozen(reach: Reach, kind: str) -> tuple[str, int]:
    """Some running process of a kind, stopped in mid-step."""
    while True:
        name, pid = await _victim(reach, kind)
        # Another fault may have been quicker.
        with suppress(ProcessLookupError):
            reach.stage.freeze(pid)
            return name, pid


async def _victim(reach: Reach, kind: str) -> tuple[str, int]:
    """Some running process of a kind: its name and process id."""
    async with asyncio.timeout(BACK_S):
        while True:
            running = [p for p in await reach.stage.processes(kind) if p.state == "RUNNING"]
            if running:
                victim = reach.chance.choice(running)
                assert victim.pid is not None
                return victim.name, victim.pid
            await asyncio.sleep(0.1)


# Servers.


def _kills_server(name: str) -> Strike:
    async def kill(reach: Reach) -> Blow:
        stage = reach.stage
        async with stage.turns[name]:
            in_flight, server = await held(reach), stage.servers[name]
            await stage.by_hand(name, server.kill)
            await asyncio.sleep(reach.between(0, 10 if reach.is_long else 1))
            await stage.by_hand(name, server.start)
        return Blow(name, in_flight)

    return kill


def _freezes_server(name: str) -> Strike:
    async def freeze(reach: Reach) -> Blow:
        async with reach.stage.turns[name]:
            in_flight, pid = await held(reach), reach.stage.servers[name].pid
            reach.stage.freeze(pid)
            try:
                await asyncio.sleep(reach.between(1, 30 if reach.is_long else 4))
            finally:
                reach.stage.thaw(pid)
        return Blow(name, in_flight)

    return freeze


async def cut_power_of_redis(reach: Reach) -> Blow:
    """Kill it, and take away what it wrote in the last moments: its disk has never seen that."""
    stage = reach.stage
    async with stage.turns["redis"]:
        in_flight = await held(reach)
        done = await _done(reach)
        log = _newest_log(reach)
        size = log.stat().st_size
        await asyncio.sleep(reach.between(0.2, 1.8))
        done_then = await _done(reach)
        redis = stage.servers["redis"]
        await stage.by_hand("redis", redis.kill)
        if log == _newest_log(reach):
            os.truncate(log, size)
        await stage.by_hand("redis", redis.start)
    return Blow("redis", in_flight + await held(reach) + max(0, done_then - done))


def _newest_log(reach: Reach) -> Path:
    """The part of Redis' append-only file that is being written."""
    parts = (reach.stage.home / "data" / "redis").glob("*/*.incr.aof")
    return max(parts, key=lambda path: int(path.name.split(".")[-3]))


async def _done(reach: Reach) -> int:
    """Pages that are complete, of all crawls that are known."""
    return sum(state.done for state in await reach.stage.frontier.crawls())


async def empty_redis(reach: Reach) -> Blow:
    """Everything that Redis knows is gone."""
    in_flight = await held(reach)
    await reach.stage.redis.flushall()
    return Blow("redis", in_flight)


async def fill_redis(reach: Reach) -> Blow:
    """Redis may use little more than it does, or less: for seconds, or, if long, for minutes."""
    share = reach.chance.choice([1.3, 1.08, 1.0, 0.98])
    async with kept_full(reach.stage, share):
        await asyncio.sleep(reach.between(60, 180) if reach.is_long else reach.between(1, 3))
    return Blow(f"redis at {100 / share:.0f} %")


@asynccontextmanager
async def kept_full(stage: Stage, share: float = 1.0) -> AsyncIterator[None]:
    """Redis may use ``share`` of what it uses, whatever that is, for the length of the block."""

    async def follow() -> None:
        while True:
            with suppress(RedisError, OSError):
                used = int((await stage.redis.info("memory"))["used_memory"])
                await stage.redis.config_set("maxmemory", int(used * share))
            await asyncio.sleep(_FOLLOW_EVERY_S)

    try:
        async with beside(follow()):
            yield
    finally:
        await wait_until(partial(_may_grow, stage), timeout_s=BACK_S)


async def _may_grow(stage: Stage) -> bool:
    """Lift the limit to what it always is; another fault may have Redis in its hands."""
    with suppress(RedisError, OSError):
        await stage.redis.config_set("maxmemory", REDIS_BYTES)
        return True
    return False


_STEP = """#!lua flags=allow-oom
if redis.call('HEXISTS', KEYS[1], 'wall') == 1 then
  redis.call('HINCRBY', KEYS[1], 'wall', ARGV[1])
end
"""
"""To the frontier, its memory of Redis' clock put back is that clock set forwards."""


async def step_clock_of_redis(reach: Reach) -> Blow:
    """Redis' clock is set forwards and back, by a millisecond up to an hour, again and again."""
    stage, keys = reach.stage, FrontierKeys()
    in_flight = await held(reach)
    steps = reach.chance.randint(2, 60 if reach.is_long else 20)
    for _ in range(steps):
        far = reach.chance.choice([1, 100, 1_000, 5_000, 9_999, 3_600_000])
        # Another fault may have Redis in its hands just now.
        with suppress(RedisError, OSError, TimeoutError):
            await stage.redis.eval(_STEP, 1, keys.meta(), str(far * _sign(reach)))
        await asyncio.sleep(reach.between(0, 0.4))
    return Blow(f"{steps} steps", in_flight)


def _sign(reach: Reach) -> int:
    return reach.chance.choice([-1, 1])


_MOST_PARTITIONS = 12


async def add_partitions(reach: Reach) -> Blow:
    """``incoming`` gets one more partition: what is fed from now on spreads in another way."""
    stage = reach.stage
    count = None
    while count is None:
        # Its clients are led through the proxy, which another fault may have in its hands.
        with suppress(KafkaError):
            async with stage.turns["kafka"]:
                count = await stage.by_hand("kafka", _add_a_partition, stage)
    return Blow(f"{count} partitions", has_struck=count <= _MOST_PARTITIONS)


def _add_a_partition(stage: Stage) -> int:
    """How many there are then, or would be one too many."""
    topic = stage.settings.topics.incoming
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{stage.servers['kafka'].port}")
    try:
        (known,) = admin.describe_topics([topic])
        count = len(known["partitions"]) + 1
        if count <= _MOST_PARTITIONS:
            admin.create_partitions({topic: NewPartitions(total_count=count)})
        return count
    finally:
        admin.close()


# The network.


def _cuts(name: str) -> Strike:
    async def cut(reach: Reach) -> Blow:
        in_flight = await held(reach)
        reach.stage.proxies[name].cut()
        return Blow(name, in_flight)

    return cut


def _disturbs(name: str, how: str) -> Strike:
    async def disturb(reach: Reach) -> Blow:
        proxy, delay = reach.stage.proxies[name], reach.between(0.02, 0.4)
        ways = {"slow": proxy.slow(delay), "mute": proxy.mute(), "half-open": proxy.half_open()}
        async with reach.stage.turns[f"network of {name}"], ways[how]:
            in_flight = await held(reach)
            await asyncio.sleep(reach.between(0.5, 8 if reach.is_long else 2))
        return Blow(name, in_flight)

    return disturb


# Rules.


async def break_rules(reach: Reach) -> Blow:
    """Somebody empties or breaks the node with the rules, and mends it again."""
    how = reach.chance.choice(["broken", "emptied"])
    seconds = reach.between(1, 10 if reach.is_long else 2)
    async with reach.stage.turns["rules"]:
        await asyncio.to_thread(_spoil, reach.stage, how, seconds)
    return Blow(f"rules {how}")


def _spoil(stage: Stage, how: str, seconds: float) -> None:
    client = KazooClient(",".join(stage.settings.ZOOKEEPER_HOSTS))
    client.start(30)
    try:
        path = stage.settings.throttle_path
        kept, _ = client.get(path)
        client.set(path, b"" if how == "emptied" else b"domains: [: {")
        time.sleep(seconds)
        client.set(path, kept)
    finally:
        client.stop()
        client.close()


_KINDS = ("crawler", "kafka-monitor", "redis-monitor", "rest")
_SERVERS = ("redis", "kafka", "zookeeper")
_NETWORKS = ("redis", "kafka")


def _faults() -> list[Fault]:
    found = []
    for kind in _KINDS:
        found += [
            Fault(f"kill-{kind}", f"kill -9 of a {kind}", _kills(kind)),
            Fault(f"freeze-{kind}", f"SIGSTOP of a {kind} for seconds, then CONT", _freezes(kind)),
            Fault(f"end-{kind}", f"TERM of a {kind}", _ends(kind)),
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


FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        *_faults(),
        Fault("power-cut", "Redis loses what it wrote in its last moments", cut_power_of_redis),
        Fault("empty-redis", "FLUSHALL", empty_redis, began_again=True),
        Fault("fill-redis", "maxmemory near, or below, what Redis uses", fill_redis),
        Fault("step-clock", "Redis' clock set forwards and back", step_clock_of_redis),
        Fault("add-partitions", "one more partition of incoming", add_partitions),
        Fault(
            "truncate-log",
            "a partition of incoming loses its end, and a person decides how it goes on",
            lose_end_of_log,
            is_for_all=False,
        ),
        Fault("break-rules", "ZooKeeper's node emptied or broken, and mended", break_rules),
        Fault("die-at-step", "a crawler dies between two steps of a page", die_at_a_step),
        Fault(
            "freeze-long",
            "a crawler frozen at some step past its deadline (33 s), then continued",
            freeze_past_deadline,
            is_for_all=False,
        ),
        Fault("wrong-clock", "two more crawlers, an hour fast and an hour slow", err_in_time),
        Fault("rebalance", "one more kafka-monitor comes and goes", join_and_leave),
    )
}
