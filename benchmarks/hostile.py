"""Measure the speed that a healthy host keeps while three of ten hosts are hostile.

One worker with default settings crawls a web of 160 hosts, none with a rate but the site's own:
first all of them are healthy, then 48 of them are hostile: drips, silence, resets, endless answers,
bombs, abuse of headers, pages as large as they may be. Links lead to all of them alike. The figure
is pages per second and healthy host, counted by the healthy hosts themselves, among hostile ones ÷
among healthy ones. Where the CPU is what limits a worker, hosts that take none of it leave more to
the others; so the pages of all healthy hosts together are reported too. ``for_cpu`` is the same
ratio of pages for a second of the worker's CPU: it holds where other work disturbs either turn.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lib import hostile_web
from lib.crawlers import WARM_UP_PAGES, Stage, fresh_frontier
from lib.harness import Benchmark, Figures, Line
from lib.processes import CRAWLER, cpu_s, own_kafka, python_path, running
from lib.webs import answers, counting_web
from redis.asyncio import Redis

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_cli.local.ports import free_block

HOSTILE_IN_TEN = 3
MEASURED_S = 30
RULE = ThrottleRule(hits=1_000_000, window_s=1, moderated=False)


@dataclass(frozen=True, slots=True)
class Turn:
    """Figures of one crawl in the measured time."""

    pages_per_s: float
    """Pages of all healthy hosts."""
    hostile_per_s: float
    """Requests to hostile ones."""
    cpu_share: float
    """Share of a core used by the worker."""
    most_mib: float
    """In RAM, of the worker, at any time."""


def _most_mib(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


async def _crawl(healthy: Stage, hostile: Stage, urls: Sequence[str]) -> Turn:
    """Crawl from an empty frontier."""
    await fresh_frontier(healthy.redis, urls, rule=RULE)
    with running(*CRAWLER, folder=healthy.folder, **healthy.environment) as pid:
        while healthy.web.served() < WARM_UP_PAGES:
            await asyncio.sleep(0.1)
        pages, harm, spent_s, began = (
            healthy.web.served(),
            hostile.web.served(),
            cpu_s(pid),
            time.monotonic(),
        )
        await asyncio.sleep(MEASURED_S)
        took_s = time.monotonic() - began
        return Turn(
            pages_per_s=(healthy.web.served() - pages) / took_s,
            hostile_per_s=(hostile.web.served() - harm) / took_s,
            cpu_share=(cpu_s(pid) - spent_s) / took_s,
            most_mib=_most_mib(pid),
        )


async def _turn(redis: Redis, kafka: str, folder: str, hostile_in_ten: int) -> Turn:
    port = free_block(2)
    healthy, hostile = (
        Stage(redis, kafka, counting_web(each), folder) for each in (port, port + 1)
    )
    program = (sys.executable, hostile_web.__file__)
    path = python_path("benchmarks")
    with ExitStack() as sites:
        for where, what in ((port, str(hostile_in_ten)), (port + 1, "hostile")):
            argv = (*program, str(where), what)
            sites.enter_context(running(*argv, folder=folder, PYTHONPATH=path))
        while not await asyncio.to_thread(lambda: answers(healthy.web) and answers(hostile.web)):
            await asyncio.sleep(0.1)
        return await _crawl(healthy, hostile, hostile_web.front_pages(port, hostile_in_ten))


async def measure(redis: Redis) -> Figures:
    """Measure once among healthy hosts and once among hostile ones."""
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder) as kafka:
            alone = await _turn(redis, kafka, folder, 0)
            among = await _turn(redis, kafka, folder, HOSTILE_IN_TEN)
    healthy_share = 1 - HOSTILE_IN_TEN / 10
    together = among.pages_per_s / alone.pages_per_s
    for_cpu = together * alone.cpu_share / among.cpu_share
    return {
        "kept_by_a_host": together / healthy_share,
        "kept_by_a_host_for_cpu": for_cpu / healthy_share,
        "kept_together": together,
        "pages_per_s": among.pages_per_s,
        "pages_per_s_all_healthy": alone.pages_per_s,
        "hostile_per_s": among.hostile_per_s,
        "cpu_share": among.cpu_share,
        "cpu_share_all_healthy": alone.cpu_share,
        "most_mib": among.most_mib,
        "most_mib_all_healthy": alone.most_mib,
    }


if __name__ == "__main__":
    Benchmark(
        name="hostile",
        about="Speed that a healthy host keeps while 30 % of hosts are hostile: one worker.",
        measure=measure,
        lines={
            "kept_by_a_host": Line(floor=0.8, goal=0.95, unit="", more=True),
            "kept_by_a_host_for_cpu": Line(floor=0.8, goal=0.95, unit="", more=True),
            "most_mib": Line(floor=300, goal=250, unit="MiB"),
        },
        repetitions=2,
    ).main()
