"""Faults of crawlers with a browser: one of the two is killed or frozen."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import psutil

from crawlstream_chaos.cluster import RENDERER
from crawlstream_chaos.faults import BACK_S, Fault, FaultContext, FaultEffect
from crawlstream_chaos.strikes.victims import freezes, kills

_IS_BROWSER = "--remote-debugging-pipe"
"""Part of a browser's command line that is in none of its child processes."""


async def kill_browser(context: FaultContext) -> FaultEffect:
    """Its crawler lives, and has another one."""
    pid = await _browser_of_some(context)
    if pid is None:
        return FaultEffect("no browser", has_struck=False)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return FaultEffect(f"browser {pid}")


async def freeze_browser(context: FaultContext) -> FaultEffect:
    """For seconds, or, if long, until its crawler has noticed."""
    pid = await _browser_of_some(context)
    if pid is None:
        return FaultEffect("no browser", has_struck=False)
    with suppress(ProcessLookupError):
        context.cluster.freeze(pid)
    try:
        await asyncio.sleep(context.between(1, 25 if context.is_long else 4))
    finally:
        context.cluster.thaw(pid)
    return FaultEffect(f"browser {pid}")


async def _browser_of_some(context: FaultContext) -> int | None:
    """Some browser that runs; None where there is no work that one would be started for."""
    async with asyncio.timeout(BACK_S):
        while True:
            renderers = await context.cluster.processes(RENDERER)
            browsers = [pid for each in renderers if each.pid for pid in _browsers_of(each.pid)]
            if browsers:
                return context.random.choice(browsers)
            state = await context.cluster.state()
            if state is not None and not state.queued + state.delayed + state.held:
                return None
            await asyncio.sleep(0.1)


def _browsers_of(pid: int) -> Sequence[int]:
    try:
        children = psutil.Process(pid).children()
        return [child.pid for child in children if _IS_BROWSER in child.cmdline()]
    except psutil.Error:
        return []


OF_RENDERERS = [
    replace(fault, is_for_all=False)
    for fault in (
        Fault("kill-renderer", "kill -9 of a crawler with a browser", kills(RENDERER)),
        Fault(
            "freeze-renderer",
            "SIGSTOP of a crawler with a browser for seconds, then CONT",
            freezes(RENDERER),
        ),
        Fault("kill-browser", "kill -9 of the browser of a crawler", kill_browser),
        Fault("freeze-browser", "SIGSTOP of the browser of a crawler for seconds", freeze_browser),
    )
]
