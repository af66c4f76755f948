"""The nemesis: every fault that can be done to a cluster, each as one function with a name.

A fault strikes, lasts, and is over when its function returns: what it froze is thawed, what it
killed is started again, by supervisor or by itself. All chance comes from a seed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from kazoo.client import KazooClient

from chaos.stage import REDIS_BYTES, Stage
from crawlstream.boot.failpoints import STEPS
from support.crawler_cluster import Crawler
from support.waiting import wait_until

_BACK_S = 240
"""A process that died is up again within this, however busy the machine."""


@dataclass(slots=True)
class Reach:
    """What a fault has to work with."""

    stage: Stage
    chance: Random
    is_long: bool = False
    """Whether faults last as long as they are meant to be outlived."""

    def between(self, shortest: float, longest: float) -> float:
        """Some number of seconds."""
        return self.chance.uniform(shortest, longest)


@dataclass(frozen=True, slots=True)
class Blow:
    """What a fault did."""

    target: str
    in_flight: int | None = None
    """Pages that were under way where it struck; None: it touches no page."""


Strike = Callable[[Reach], Awaitable[Blow]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault by its name, a line about it, and what it does."""

    name: str
    about: str
    strike: Strike
    began_again: bool = False
    """Whether unfinished crawls begin again after it."""
    is_for_all: bool = True
    """Whether it may be mixed with all others, and is when nobody chooses."""


async def held(reach: Reach) -> int:
    """Pages that crawlers hold now."""
    state = await reach.stage.state()
    return state.held if state else 0


# Processes.


def _kills(kind: str) -> Strike:
    async def kill(reach: Reach) -> Blow:
        """Frozen first, so that what it holds can be counted when it dies."""
        name, pid = await _victim(reach, kind)
        reach.stage.freeze(pid)
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
        name, pid = await _victim(reach, kind)
        reach.stage.freeze(pid)
        try:
            in_flight = await held(reach) if kind == "crawler" else None
            await asyncio.sleep(reach.between(1, 12 if reach.is_long else 3))
        finally:
            reach.stage.thaw(pid)
        return Blow(name, in_flight)

    return freeze


async def _victim(reach: Reach, kind: str) -> tuple[str, int]:
    """Some running process of a kind: its name and process id."""
    async with asyncio.timeout(_BACK_S):
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
        in_flight, server = await held(reach), reach.stage.servers[name]
        await reach.stage.by_hand(server.kill)
        await asyncio.sleep(reach.between(0, 10 if reach.is_long else 1))
        await reach.stage.by_hand(server.start)
        return Blow(name, in_flight)

    return kill


def _freezes_server(name: str) -> Strike:
    async def freeze(reach: Reach) -> Blow:
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
    in_flight = await held(reach)
    done = await _done(reach)
    log = _newest_log(reach)
    size = log.stat().st_size
    await asyncio.sleep(reach.between(0.2, 1.8))
    done_then = await _done(reach)
    redis = reach.stage.servers["redis"]
    await reach.stage.by_hand(redis.kill)
    if log == _newest_log(reach):
        os.truncate(log, size)
    await reach.stage.by_hand(redis.start)
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
    """Redis may use little more than it does, or less, for a while."""
    redis = reach.stage.redis
    used = int((await redis.info("memory"))["used_memory"])
    share = reach.chance.choice([1.3, 1.08, 0.98])
    await redis.config_set("maxmemory", int(used * share))
    try:
        await asyncio.sleep(reach.between(1, 15 if reach.is_long else 3))
    finally:
        # Not what it was before: another stroke like this one may have been under way.
        await redis.config_set("maxmemory", REDIS_BYTES)
    return Blow(f"redis at {100 / share:.0f} %")


# The network.


def _cuts(name: str) -> Strike:
    async def cut(reach: Reach) -> Blow:
        in_flight = await held(reach)
        reach.stage.proxies[name].cut()
        return Blow(name, in_flight)

    return cut


def _disturbs(name: str, how: str) -> Strike:
    async def disturb(reach: Reach) -> Blow:
        proxy, in_flight = reach.stage.proxies[name], await held(reach)
        delay = reach.between(0.02, 0.4)
        ways = {"slow": proxy.slow(delay), "mute": proxy.mute(), "half-open": proxy.half_open()}
        async with ways[how]:
            await asyncio.sleep(reach.between(0.5, 8 if reach.is_long else 2))
        return Blow(name, in_flight)

    return disturb


# Rules.


async def break_rules(reach: Reach) -> Blow:
    """Somebody empties or breaks the node with the rules, and mends it again."""
    how = reach.chance.choice(["broken", "emptied"])
    await asyncio.to_thread(_spoil, reach.stage, how, reach.between(1, 10 if reach.is_long else 2))
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


# Guests: crawlers that are started by hand, to die and to err in ways of their own.


@asynccontextmanager
async def guest(reach: Reach, spider: str = "link", **env: str) -> AsyncIterator[Crawler]:
    """One more crawler for the length of the block, if it lives that long."""
    environment = reach.stage.environment(**env)
    log = reach.stage.home / "logs" / f"guest-{next(reach.stage.logs_of_guests)}.log"
    crawler = Crawler(spider, environment, log)
    crawler.start()
    try:
        yield crawler
    finally:
        await asyncio.to_thread(crawler.kill)


async def die_at_a_step(reach: Reach) -> Blow:
    """A crawler kills itself between two steps of the order of effects."""
    step, passes = reach.chance.choice(STEPS), reach.chance.randint(2, 9)
    async with guest(reach, FAILPOINT=f"{step}:kill:{passes}") as crawler:
        return await death_of(crawler, f"{step}, pass {passes}", reach)


async def death_of(crawler: Crawler, where: str, reach: Reach) -> Blow:
    """Wait until it has ended, or has no work left that would bring it to its end."""
    async with asyncio.timeout(_BACK_S):
        while crawler.is_running():
            state = await reach.stage.state()
            if state is not None and not state.queued + state.delayed + state.held:
                return Blow(f"{where}: not reached")
            await asyncio.sleep(0.1)
    return Blow(where, await held(reach))


async def freeze_past_deadline(reach: Reach) -> Blow:
    """A crawler sleeps until its pages are in other hands, and goes on as if nothing had been."""
    async with guest(reach) as crawler:
        await wait_until(lambda: settles(crawler) >= 3, timeout_s=_BACK_S, every_s=0.2)
        crawler.signal(signal.SIGSTOP)
        in_flight = await held(reach)
        await asyncio.sleep(33)
        crawler.signal(signal.SIGCONT)
        await asyncio.sleep(5)
        stale = sum(event.get("outcome") == "stale" for event in crawler.events())
    return Blow(f"a guest, {stale} of whose ends came too late", in_flight + await held(reach))


def is_up(crawler: Crawler) -> bool:
    """Whether it is ready for work."""
    return any(event.get("event") == "start" for event in crawler.events())


def settles(crawler: Crawler) -> int:
    """Pages that it has settled so far."""
    return sum(event.get("event") == "settle" for event in crawler.events())


SHIFT_CLOCK = """
import os, time
now, now_ns, shift = time.time, time.time_ns, int(os.environ["SHIFT_CLOCK_S"])
time.time = lambda: now() + shift
time.time_ns = lambda: now_ns() + shift * 10**9
"""
"""Run by Python before anything else; under libfaketime kafka-python's waits fail."""


async def err_in_time(reach: Reach) -> Blow:
    """Two crawlers work beside the others, their clocks an hour fast and an hour slow."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "sitecustomize.py").write_text(SHIFT_CLOCK)
        path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
        for hours in (1, -1):
            clock = {"PYTHONPATH": path, "SHIFT_CLOCK_S": str(hours * 3600)}
            await stack.enter_async_context(guest(reach, **clock))
        await asyncio.sleep(reach.between(8, 40 if reach.is_long else 10))
        in_flight = await held(reach)
    return Blow("two guests", in_flight)


# Two faults that only make sense beside others.


@asynccontextmanager
async def helper(
    reach: Reach, *module: str, **env: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """One more process of the cluster, by its module, for the length of the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *module),
        env=reach.stage.environment(**env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=reach.stage.home,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def join_and_leave(reach: Reach) -> Blow:
    """One more kafka-monitor joins the group and leaves it again: two rebalances."""
    async with helper(reach, "kafka_monitor", "run") as process:
        await asyncio.sleep(reach.between(2, 4))
        if reach.chance.random() < 0.5:
            process.terminate()
            await process.wait()
    return Blow("a second kafka-monitor")


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
        Fault("break-rules", "ZooKeeper's node emptied or broken, and mended", break_rules),
        Fault("die-at-step", "a crawler dies between two steps of a page", die_at_a_step),
        Fault(
            "freeze-long",
            "a crawler frozen past its deadline (33 s), then continued",
            freeze_past_deadline,
            is_for_all=False,
        ),
        Fault("wrong-clock", "two more crawlers, an hour fast and an hour slow", err_in_time),
        Fault("rebalance", "one more kafka-monitor comes and goes", join_and_leave),
    )
}
