"""Faults by extra processes: crawlers and monitors that die, freeze or err in ways of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import psutil

from crawlstream.boot.failpoints import STEPS
from crawlstream_chaos.faults import BACK_S, FaultContext, FaultEffect, Inject, leased
from crawlstream_chaos.processes import LoggedCrawler


@asynccontextmanager
async def extra_crawler(
    context: FaultContext, spider: str = "link", **env: str
) -> AsyncIterator[LoggedCrawler]:
    """Run an additional crawler for the length of the block, if it lives that long."""
    environment = context.cluster.environment(**env)
    log = context.cluster.home / "logs" / f"extra-crawler-{next(context.cluster.extra_logs)}.log"
    crawler = LoggedCrawler(spider, environment, log)
    crawler.start()
    try:
        yield crawler
    finally:
        await asyncio.to_thread(crawler.kill)


def dies_at(steps: Sequence[str]) -> Inject:
    """A fault: a crawler kills itself at one of these steps."""

    async def die(context: FaultContext) -> FaultEffect:
        step, passes = context.random.choice(steps), context.random.randint(2, 9)
        async with extra_crawler(context, FAILPOINT=f"{step}:kill:{passes}") as crawler:
            return await death_of(crawler, f"{step}, pass {passes}", context)

    return die


async def death_of(crawler: LoggedCrawler, where: str, context: FaultContext) -> FaultEffect:
    """Wait until it has ended."""
    if not await _comes(lambda: not crawler.is_running(), context):
        return FaultEffect(f"{where}: not reached", has_struck=False)
    return FaultEffect(where, await leased(context))


async def _comes(has_come: Callable[[], bool], context: FaultContext) -> bool:
    """Wait for what befalls a crawler; False where it has no work left that would bring it."""
    async with asyncio.timeout(BACK_S):
        while not has_come():
            state = await context.cluster.state()
            if state is not None and not state.queued + state.delayed + state.held:
                return False
            await asyncio.sleep(0.1)
    return True


async def freeze_past_deadline(context: FaultContext) -> FaultEffect:
    """A crawler freezes at some step until others have leased its pages, and goes on with them."""
    step, passes = context.random.choice(STEPS[:-1]), context.random.randint(2, 5)
    async with extra_crawler(context, FAILPOINT=f"{step}:stop:{passes}") as crawler:
        if not await _comes(lambda: is_frozen(crawler), context):
            return FaultEffect(f"an extra crawler {step}: not reached", has_struck=False)
        in_flight = await leased(context)
        await asyncio.sleep(33)
        crawler.signal(signal.SIGCONT)
        await asyncio.sleep(5)
        stale = sum(event.get("outcome") == "stale" for event in crawler.events())
    target = f"an extra crawler {step}, {stale} of whose ends came too late"
    return FaultEffect(target, in_flight + await leased(context))


def is_frozen(crawler: LoggedCrawler) -> bool:
    """Return whether it has stopped in mid-step."""
    return psutil.Process(crawler.pid).status() == psutil.STATUS_STOPPED


def is_up(crawler: LoggedCrawler) -> bool:
    """Return whether it is ready for work."""
    return any(event.get("event") == "start" for event in crawler.events())


def settles(crawler: LoggedCrawler) -> int:
    """Pages that it has settled so far."""
    return sum(event.get("event") == "settle" for event in crawler.events())


SHIFT_CLOCK = """
import os, time
now, now_ns, shift = time.time, time.time_ns, int(os.environ["SHIFT_CLOCK_S"])
time.time = lambda: now() + shift
time.time_ns = lambda: now_ns() + shift * 10**9
"""
"""Run by Python before anything else; under libfaketime kafka-python's waits fail."""


async def err_in_time(context: FaultContext) -> FaultEffect:
    """Two crawlers work next to the others, their clocks an hour fast and an hour slow."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "sitecustomize.py").write_text(SHIFT_CLOCK)
        path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
        for hours in (1, -1):
            clock = {"PYTHONPATH": path, "SHIFT_CLOCK_S": str(hours * 3600)}
            await stack.enter_async_context(extra_crawler(context, **clock))
        await asyncio.sleep(context.between(8, 40 if context.is_long else 10))
        in_flight = await leased(context)
    return FaultEffect("two extra crawlers", in_flight)


@asynccontextmanager
async def extra_process(
    context: FaultContext, *module: str, **env: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run an additional process of the cluster, by its module, for the length of the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *module),
        env=context.cluster.environment(**env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=context.cluster.home,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def join_and_leave(context: FaultContext) -> FaultEffect:
    """Let an additional kafka-monitor join the group and leave it again: two rebalances."""
    async with extra_process(context, "kafka_monitor", "run") as process:
        await asyncio.sleep(context.between(2, 4))
        if context.random.random() < 0.5:
            process.terminate()
            await process.wait()
    return FaultEffect("a second kafka-monitor")
