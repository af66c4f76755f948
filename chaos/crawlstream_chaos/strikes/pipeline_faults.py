"""Faults of pipelines: their processes die and freeze at any step, their stores fail."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import suppress

import psutil

from crawlstream.tasks import wait_until
from crawlstream_chaos.faults import Fault, FaultContext, FaultEffect, Inject
from crawlstream_chaos.pipelines.described import objects_of
from crawlstream_chaos.pipelines.objects import TROUBLES, in_trouble
from crawlstream_chaos.strikes.extra_processes import extra_process
from crawlstream_chaos.strikes.victims import ends, frozen, kills

_STEPS = ("before_claim", "after_claim", "after_put", "before_commit", "after_finish")
"""The last one has nothing left to do; a table has it as ``after_commit``."""
_PIPELINE = ("pipeline_service", "run")
_REACHED_S = 40
"""A process joins and has a partition within this; else others have all of the work."""
_PAST_SESSION_S = 7, 10
"""Longer than Kafka waits for a member of a group, shorter than the health listener for us."""


async def _freeze(context: FaultContext) -> FaultEffect:
    """Others have its partitions when it comes back."""
    name, pid = await frozen(context, "pipeline")
    try:
        await asyncio.sleep(context.between(*_PAST_SESSION_S))
    finally:
        context.cluster.thaw(pid)
    return FaultEffect(name)


async def _die_at_a_step(context: FaultContext) -> FaultEffect:
    step, passes = context.random.choice((*_STEPS, "after_commit")), context.random.randint(1, 3)
    async with extra_process(context, *_PIPELINE, FAILPOINT=f"{step}:kill:{passes}") as process:
        has_died = await _comes(lambda: process.returncode is not None)
    return _effect(step, passes, is_reached=has_died)


async def _freeze_at_a_step(context: FaultContext) -> FaultEffect:
    """It goes on with what others have made again meanwhile."""
    step, passes = context.random.choice(_STEPS[:-1]), context.random.randint(1, 3)
    async with extra_process(context, *_PIPELINE, FAILPOINT=f"{step}:stop:{passes}") as process:
        has_frozen = await _comes(lambda: _is_frozen(process))
        if has_frozen:
            await asyncio.sleep(context.between(*_PAST_SESSION_S))
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            await asyncio.sleep(context.between(1, 4))
    return _effect(step, passes, is_reached=has_frozen)


def _effect(step: str, passes: int, *, is_reached: bool) -> FaultEffect:
    where = f"{step}, pass {passes}{'' if is_reached else ': not reached'}"
    return FaultEffect(where, has_struck=is_reached)


async def _comes(has_come: Callable[[], bool]) -> bool:
    """Wait for what befalls a process; False where it has no work that would bring it."""
    with suppress(TimeoutError):
        return await wait_until(has_come, timeout_s=_REACHED_S, every_s=0.1)
    return False


def _is_frozen(process: Process) -> bool:
    with suppress(psutil.Error):
        return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
    return False


def _troubles(how: str) -> Inject:
    async def trouble(context: FaultContext) -> FaultEffect:
        cluster = context.cluster
        async with cluster.turns["store"]:
            with in_trouble(objects_of(cluster.home), how):
                await asyncio.sleep(context.between(1, 30 if context.is_long else 8))
        return FaultEffect(f"the store of objects: {how}")

    return trouble


async def _join_and_leave(context: FaultContext) -> FaultEffect:
    async with extra_process(context, *_PIPELINE) as process:
        await asyncio.sleep(context.between(4, 10))
        if context.random.random() < 0.5:
            process.terminate()
            await process.wait()
    return FaultEffect("one more pipeline process")


async def _feed_what_is_no_result(context: FaultContext) -> FaultEffect:
    count = context.random.randint(1, 5)
    await asyncio.to_thread(context.cluster.recorder.feed_unreadable, count)
    return FaultEffect(f"{count} records")


OF_PIPELINES = [
    Fault(f"{name}-pipeline", about, inject, is_for_all=False)
    for name, about, inject in (
        ("kill", "kill -9 of a pipeline process", kills("pipeline")),
        ("freeze", "SIGSTOP of a pipeline process for longer than its session, then CONT", _freeze),
        ("end", "TERM of a pipeline process", ends("pipeline")),
        ("rebalance", "one more pipeline process comes and goes", _join_and_leave),
        ("die-at-step-of", "a pipeline process dies between two steps of a file", _die_at_a_step),
        ("freeze-at-step-of", "one freezes there, and comes back later", _freeze_at_a_step),
    )
]
OF_PIPELINES += [
    Fault(f"store-{how}", f"the store of a pipeline: {about}", _troubles(how), is_for_all=False)
    for how, about in TROUBLES.items()
]
OF_PIPELINES += [
    Fault(
        "unreadable",
        "records that are no results, on the topic of results",
        _feed_what_is_no_result,
        is_for_all=False,
    )
]
"""They need a cluster with pipelines."""
