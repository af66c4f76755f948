"""A rolling upgrade: processes change between the version before and this one, in any order."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from random import Random

from crawlstream.tasks import wait_until
from crawlstream_chaos.cluster import ChaosCluster
from crawlstream_chaos.faults import BACK_S, Fault, FaultContext, FaultEffect, leased
from crawlstream_chaos.rounds import Round
from crawlstream_chaos.scripts import first_pages, strike_at_random
from crawlstream_chaos.versions.mixed import MixedCluster
from crawlstream_cli.local.supervisor import ProcessInfo

_REST_S = 0.5
"""Between two changes, so that processes of both versions work side by side."""


async def roll(faults: Sequence[Fault], round_: Round) -> None:
    """Upgrade all processes one by one while pages wait; change some back, and forward again.

    The crawl begins in a cluster of the version before, and ends in one of this version. Other
    faults strike at the same time, if there are any.
    """
    await round_.feed_front_page()
    await first_pages(round_)
    async with asyncio.TaskGroup() as group:
        if faults:
            group.create_task(strike_at_random(faults, round_))
        processes = await asyncio.to_thread(round_.cluster.local.processes)
        for name, is_new in _changes(round_, processes):
            fault = Fault("upgrade" if is_new else "go-back", "", partial(_change, name, is_new))
            await round_.strike(fault, round_.context)
            await asyncio.sleep(_REST_S)


def _changes(round_: Round, processes: Sequence[ProcessInfo]) -> Iterator[tuple[str, bool]]:
    """Each forward; one back and forward; any, until time is over; then all forward.

    What an earlier round has upgraded goes back first. Yields a process, and whether it gets this
    version.
    """
    random, is_chosen = Random(f"{round_.seed}/versions"), _mixed(round_.cluster).is_chosen
    names = [each.name for each in processes]
    yield from ((each.name, False) for each in processes if is_chosen(each))
    yield from ((name, True) for name in random.sample(names, len(names)))
    one = random.choice(names)
    yield from ((one, False), (one, True))
    new = dict.fromkeys(names, True)
    until = time.monotonic() + round_.seconds
    while time.monotonic() < until:
        name = random.choice(names)
        new[name] = not new[name]
        yield name, new[name]
    yield from ((name, True) for name in names if not new[name])


async def _change(name: str, is_new: bool, context: FaultContext) -> FaultEffect:  # noqa: FBT001  by partial
    """End a process; return when it is back with the other version, and ready."""
    cluster, local = context.cluster, _mixed(context.cluster)

    async def has_changed() -> bool:
        process = await _process(cluster, name)
        with suppress(OSError):
            return (
                process.pid is not None
                and local.is_new(process.pid) == is_new
                and await asyncio.to_thread(local.condition, process) == "ready"
            )
        return False

    process = await _process(cluster, name)
    local.choose(process, is_new=is_new)
    in_flight = await leased(context) if process.kind == "crawler" else None
    if process.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
    await wait_until(has_changed, timeout_s=BACK_S, every_s=0.2)
    return FaultEffect(name, in_flight)


async def _process(cluster: ChaosCluster, name: str) -> ProcessInfo:
    found = await asyncio.to_thread(cluster.local.processes)
    return next(each for each in found if each.name == name)


def _mixed(cluster: ChaosCluster) -> MixedCluster:
    assert isinstance(cluster.local, MixedCluster)
    return cluster.local
