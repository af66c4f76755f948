"""Processes that supervisor runs, and what is done to one of them: killed, ended, frozen."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

from crawlstream_chaos.cluster import RENDERER
from crawlstream_chaos.faults import BACK_S, FaultContext, FaultEffect, Inject, leased

_HOLD_PAGES = frozenset({"crawler", RENDERER})


def kills(kind: str) -> Inject:
    """A fault: kill -9 of a process of a kind."""

    async def kill(context: FaultContext) -> FaultEffect:
        # Frozen first, so that what it holds can be counted when it dies.
        name, pid = await frozen(context, kind)
        in_flight = await leased(context) if kind in _HOLD_PAGES else None
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        context.cluster.thaw(pid)
        return FaultEffect(name, in_flight)

    return kill


def ends(kind: str) -> Inject:
    """A fault: its orderly end, and a new start."""

    async def end(context: FaultContext) -> FaultEffect:
        name, pid = await victim_of(context, kind)
        in_flight = await leased(context) if kind in _HOLD_PAGES else None
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        return FaultEffect(name, in_flight)

    return end


def freezes(kind: str, longest_s: float = 3) -> Inject:
    """A fault: frozen for seconds, for fewer than make the health listener kill it."""

    async def freeze(context: FaultContext) -> FaultEffect:
        name, pid = await frozen(context, kind)
        try:
            in_flight = await leased(context) if kind in _HOLD_PAGES else None
            await asyncio.sleep(context.between(1, 12 if context.is_long else longest_s))
        finally:
            context.cluster.thaw(pid)
        return FaultEffect(name, in_flight)

    return freeze


async def frozen(context: FaultContext, kind: str) -> tuple[str, int]:
    """Some running process of a kind, stopped in mid-step."""
    while True:
        name, pid = await victim_of(context, kind)
        # Another fault may have been quicker.
        with suppress(ProcessLookupError):
            context.cluster.freeze(pid)
            return name, pid


async def victim_of(context: FaultContext, kind: str) -> tuple[str, int]:
    """Some running process of a kind: its name and process id."""
    async with asyncio.timeout(BACK_S):
        while True:
            running = [p for p in await context.cluster.processes(kind) if p.state == "RUNNING"]
            if running:
                victim = context.random.choice(running)
                assert victim.pid is not None
                return victim.name, victim.pid
            await asyncio.sleep(0.1)
