"""Faults of Redis, and of the network before it.

Where the frontier has several partitions, each on a Redis, they strike one, or all at once.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from redis.exceptions import RedisError

from crawlstream.keys import FrontierKeys
from crawlstream.tasks import beside, wait_until
from crawlstream_chaos.cluster import ChaosCluster
from crawlstream_chaos.faults import BACK_S, Fault, FaultContext, FaultEffect, Inject, leased
from crawlstream_chaos.proxy import FaultyProxy
from crawlstream_chaos.stores.struck_servers import REDIS_BYTES
from crawlstream_frontier.partitions.frontiers import Frontiers

_FOLLOW_EVERY_S = 0.3
"""How often the limit of a Redis that is kept full follows what it uses."""

Choose = Callable[[FaultContext], Sequence[int]]
"""The partitions whose Redis are struck, in their order."""


def one(context: FaultContext) -> Sequence[int]:
    """Some partition."""
    return [context.random.randrange(len(context.cluster.redis_names))]


def one_or_all(context: FaultContext) -> Sequence[int]:
    """Some partition, or all of them."""
    every = range(len(context.cluster.redis_names))
    return every if context.random.random() < 0.5 else one(context)


def coordinator(context: FaultContext) -> Sequence[int]:
    """The partition that coordinates a crawl in progress."""
    return [context.cluster.frontier.partitions.coordinator(context.random.choice(context.crawls))]


@asynccontextmanager
async def _turn(context: FaultContext, partitions: Sequence[int]) -> AsyncIterator[Sequence[str]]:
    """Have these Redis to oneself; their names."""
    names = [context.cluster.redis_names[p] for p in partitions]
    async with AsyncExitStack() as stack:
        for name in names:
            await stack.enter_async_context(context.cluster.turns[name])
        yield names


async def _kill(cluster: ChaosCluster, names: Sequence[str]) -> None:
    await asyncio.gather(*(cluster.by_hand(name, cluster.servers[name].kill) for name in names))


async def _start(cluster: ChaosCluster, names: Sequence[str]) -> None:
    await asyncio.gather(*(cluster.by_hand(name, cluster.servers[name].start) for name in names))


def kills(choose: Choose) -> Inject:
    """A fault: kill -9, and a new start."""

    async def kill(context: FaultContext) -> FaultEffect:
        async with _turn(context, choose(context)) as names:
            in_flight = await leased(context)
            await _kill(context.cluster, names)
            await asyncio.sleep(context.between(0, 10 if context.is_long else 1))
            await _start(context.cluster, names)
        return FaultEffect(", ".join(names), in_flight)

    return kill


def freezes(choose: Choose) -> Inject:
    """A fault: frozen for seconds."""

    async def freeze(context: FaultContext) -> FaultEffect:
        cluster = context.cluster
        async with _turn(context, choose(context)) as names:
            in_flight = await leased(context)
            pids = [cluster.servers[name].pid for name in names]
            for pid in pids:
                cluster.freeze(pid)
            try:
                await asyncio.sleep(context.between(1, 30 if context.is_long else 4))
            finally:
                for pid in pids:
                    cluster.thaw(pid)
        return FaultEffect(", ".join(names), in_flight)

    return freeze


def cuts_power(choose: Choose) -> Inject:
    """A fault: what was written in the last moments is gone, the disk has never seen it."""

    async def cut(context: FaultContext) -> FaultEffect:
        cluster, partitions = context.cluster, choose(context)
        done = partial(cluster.observed.done, context.crawls, partitions)
        async with _turn(context, partitions) as names:
            in_flight, done_before = await leased(context), await done()
            logs = [_newest_log(cluster, name) for name in names]
            sizes = [log.stat().st_size for log in logs]
            await asyncio.sleep(context.between(0.2, 1.8))
            in_flight, done_then = in_flight + await leased(context), await done()
            await _kill(cluster, names)
            for name, log, size in zip(names, logs, sizes, strict=True):
                if log == _newest_log(cluster, name):
                    os.truncate(log, size)
            await _start(cluster, names)
            # Redis may write a second or two later than it answers, so that it lost more.
            again = max(0, done_then - min(done_before, await done()))
        return FaultEffect(", ".join(names), in_flight + await leased(context) + again)

    return cut


def _newest_log(cluster: ChaosCluster, name: str) -> Path:
    """The part of a Redis' append-only file that is being written."""
    parts = (cluster.home / "data" / name).glob("*/*.incr.aof")
    return max(parts, key=lambda path: int(path.name.split(".")[-3]))


def wipes(choose: Choose) -> Inject:
    """A fault: its disk is lost, an empty one takes its place."""

    async def wipe(context: FaultContext) -> FaultEffect:
        cluster, partitions = context.cluster, choose(context)
        async with _turn(context, partitions) as names:
            in_flight = sum([await _lose_all(context, p) for p in partitions])
            await _kill(cluster, names)
            for name in names:
                for path in (cluster.home / "data" / name).iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            await _start(cluster, names)
        return FaultEffect(", ".join(names), in_flight)

    return wipe


_LOSE_ALL = """#!lua flags=allow-oom
local pages = 0
for _, key in ipairs(redis.call('KEYS', KEYS[1] .. 'x:*')) do
  local ledger = redis.call('HMGET', key, 'name', 'done', 'held', 'kept:done')
  for _, name in ipairs(ARGV) do
    if ledger[1] == name then
      pages = pages + tonumber(ledger[2] or 0) + tonumber(ledger[3] or 0) + tonumber(ledger[4] or 0)
    end
  end
end
redis.call('FLUSHALL')
return pages
"""
"""Empty Redis; return the number of pages of crawls that were complete or in flight."""


async def _lose_all(context: FaultContext, partition: int) -> int:
    """Have a partition lose everything; how many pages it may have delivered once more."""
    observed = context.cluster.observed
    tag = observed.frontiers.partitions.keys(partition).tag
    names = [FrontierKeys.crawl_field(crawl) for crawl in context.crawls]

    async def lose(_frontiers: Frontiers) -> int:
        return int(await observed.redis[partition].eval(_LOSE_ALL, 1, tag, *names))

    return await observed.ask(lose)


async def empty_redis(context: FaultContext) -> FaultEffect:
    """Everything that Redis knows is gone; the server lives."""
    cluster, partitions = context.cluster, one_or_all(context)
    names = [cluster.redis_names[p] for p in partitions]
    in_flight = await leased(context)
    pages = sum([await _lose_all(context, p) for p in partitions])
    if len(cluster.redis_names) > 1:
        # Repeated pages of several partitions are not marked as repeated.
        in_flight = max(in_flight, pages)
    return FaultEffect(", ".join(names), in_flight)


async def fill_redis(context: FaultContext) -> FaultEffect:
    """Redis may use little more than it does, or less: for seconds, or, if long, for minutes."""
    share, partitions = context.random.choice([1.3, 1.08, 1.0, 0.98]), one_or_all(context)
    async with kept_full(context.cluster, share, partitions):
        await asyncio.sleep(context.between(60, 180) if context.is_long else context.between(1, 3))
    names = ", ".join(context.cluster.redis_names[p] for p in partitions)
    return FaultEffect(f"{names} at {100 / share:.0f} %")


@asynccontextmanager
async def kept_full(
    cluster: ChaosCluster, share: float = 1.0, partitions: Sequence[int] | None = None
) -> AsyncIterator[None]:
    """Redis may use ``share`` of what it uses, whatever that is, for the length of the block.

    ``partitions``: on whose Redis; None: on all.
    """
    every = range(len(cluster.redis_names)) if partitions is None else partitions
    clients = [cluster.observed.redis[p] for p in every]

    async def follow() -> None:
        while True:
            for redis in clients:
                with suppress(RedisError, OSError):
                    used = int((await redis.info("memory"))["used_memory"])
                    await redis.config_set("maxmemory", int(used * share))
            await asyncio.sleep(_FOLLOW_EVERY_S)

    async def may_grow() -> bool:
        """Lift the limit to what it always is; another fault may have Redis in its hands."""
        with suppress(RedisError, OSError):
            for redis in clients:
                await redis.config_set("maxmemory", REDIS_BYTES)
            return True
        return False

    try:
        async with beside(follow()):
            yield
    finally:
        await wait_until(may_grow, timeout_s=BACK_S)


_STEP = """#!lua flags=allow-oom
if redis.call('HEXISTS', KEYS[1], 'wall') == 1 then
  redis.call('HINCRBY', KEYS[1], 'wall', ARGV[1])
end
"""
"""To the frontier, its memory of Redis' clock put back is that clock set forwards."""


_STEPS_MS = (1, 100, 1_000, 5_000, 9_999, 3_600_000)
_DAY_MS = 86_400_000
_JUMPS_MS = (_DAY_MS, 8 * _DAY_MS, 40 * _DAY_MS)
"""A day, more than an occasion may be off, more than the longest memory of pages by default."""


def steps_clock(steps_ms: Sequence[int]) -> Inject:
    """A fault: Redis' clock is set forwards and back by these amounts, again and again."""

    async def step_clock(context: FaultContext) -> FaultEffect:
        cluster, partitions = context.cluster, one_or_all(context)
        in_flight = await leased(context)
        steps = context.random.randint(2, 60 if context.is_long else 20)
        for _ in range(steps):
            far = context.random.choice(steps_ms) * context.random.choice([-1, 1])
            for p in partitions:
                # Another fault may have Redis in its hands just now.
                with suppress(RedisError, OSError, TimeoutError):
                    meta = cluster.frontier.partitions.keys(p).meta()
                    await cluster.observed.redis[p].eval(_STEP, 1, meta, str(far))
            await asyncio.sleep(context.between(0, 0.4))
        return FaultEffect(f"{steps} steps", in_flight)

    return step_clock


def _cut_connections(choose: Choose) -> Inject:
    async def cut(context: FaultContext) -> FaultEffect:
        names = [context.cluster.redis_names[p] for p in choose(context)]
        in_flight = await leased(context)
        for name in names:
            context.cluster.proxies[name].cut()
        return FaultEffect(", ".join(names), in_flight)

    return cut


def _disturb(choose: Choose, how: str) -> Inject:
    async def disturb(context: FaultContext) -> FaultEffect:
        names = [context.cluster.redis_names[p] for p in choose(context)]
        delay_s = context.between(0.02, 0.4)
        async with AsyncExitStack() as stack:
            for name in names:
                await stack.enter_async_context(context.cluster.turns[f"network of {name}"])
            for name in names:
                proxy: FaultyProxy = context.cluster.proxies[name]
                ways = {
                    "slow": proxy.slow(delay_s),
                    "mute": proxy.mute(),
                    "half-open": proxy.half_open(),
                }
                await stack.enter_async_context(ways[how])
            in_flight = await leased(context)
            await asyncio.sleep(context.between(0.5, 8 if context.is_long else 2))
        return FaultEffect(", ".join(names), in_flight)

    return disturb


OF_REDIS = (
    Fault("kill-redis", "kill -9 of redis, and a new start", kills(one_or_all)),
    Fault("freeze-redis", "SIGSTOP of redis for seconds", freezes(one_or_all)),
    Fault("cut-redis", "all connections to redis are cut", _cut_connections(one_or_all)),
    Fault("slow-redis", "20 to 400 ms more to and from redis", _disturb(one_or_all, "slow")),
    Fault(
        "mute-redis",
        "what is asked of redis takes effect, the replies are lost",
        _disturb(one_or_all, "mute"),
    ),
    Fault(
        "half-open-redis",
        "connections to redis stay, nothing passes",
        _disturb(one_or_all, "half-open"),
    ),
    Fault("power-cut", "Redis loses what it wrote in its last moments", cuts_power(one_or_all)),
    Fault("empty-redis", "FLUSHALL", empty_redis, began_again=True),
    Fault("fill-redis", "maxmemory near, or below, what Redis uses", fill_redis),
    Fault("step-clock", "Redis' clock set forwards and back", steps_clock(_STEPS_MS)),
    Fault(
        "jump-clock",
        "Redis' clock set forwards and back by days",
        steps_clock(_JUMPS_MS),
        is_for_all=False,
    ),
)
