"""``crawlstream status``: what runs, and the cluster's counters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from redis.exceptions import RedisError
from rich.console import Console
from rich.table import Table

from crawlstream.boot.clients import redis_client
from crawlstream.boot.settings import load_settings
from crawlstream.cli.cluster import LocalCluster
from crawlstream.cli.supervisor import ProcessInfo
from crawlstream.errors import CrawlstreamError
from crawlstream.frontier.frontier import Frontier
from crawlstream.keys import FrontierKeys
from crawlstream.model.state import FrontierState

_NOT_RUNNING = 3
"""As service managers say it."""

_PATIENCE_S = 3.0


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Show the processes of the cluster in CRAWLSTREAM_HOME, and what the frontier holds.

    Exits 3 if no cluster runs there.
    """
    cluster = LocalCluster()
    processes = cluster.processes()
    counters = asyncio.run(_counters()) if processes else None
    if as_json:
        print(json.dumps(_as_json(cluster, processes, counters)))
    else:
        _show(Console(), cluster, processes, counters)
    if not processes:
        raise typer.Exit(_NOT_RUNNING)


async def _counters() -> FrontierState | None:
    """What the frontier tells, None if Redis does not answer in time."""
    settings = load_settings()
    redis = redis_client(settings)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            keys = FrontierKeys(settings.namespace)
            return await Frontier(redis, keys).state()
    except (CrawlstreamError, RedisError, TimeoutError):
        return None
    finally:
        await redis.aclose()


def _as_json(
    cluster: LocalCluster, processes: Sequence[ProcessInfo], counters: FrontierState | None
) -> Mapping[str, object]:
    return {
        "home": str(cluster.home.path),
        "running": bool(processes),
        "addresses": cluster.addresses,
        "processes": [
            {
                "name": process.name,
                "kind": process.kind,
                "pid": process.pid,
                "state": process.state,
                "uptime_s": process.uptime_s,
            }
            for process in processes
        ],
        "counters": asdict(counters) if counters else None,
    }


def _show(
    console: Console,
    cluster: LocalCluster,
    processes: Sequence[ProcessInfo],
    counters: FrontierState | None,
) -> None:
    if not processes:
        console.print(f"no cluster runs in {cluster.home.path}", highlight=False)
        if left := cluster.leftovers():
            console.print(f"{left} processes are left of an earlier one: ./crawlstream down")
        return
    table = Table("process", "state", "pid", "up", box=None, header_style="dim")
    for process in processes:
        colour = "green" if process.state == "RUNNING" else "red"
        state = f"[{colour}]{process.state.lower()}[/]"
        table.add_row(process.name, state, str(process.pid or ""), _duration(process.uptime_s))
    console.print(table)
    console.print(_in_words(counters), highlight=False)


def _in_words(counters: FrontierState | None) -> str:
    if counters is None:
        return "Redis does not answer"
    return (
        f"{counters.crawls} crawls under way, {counters.queued} pages queued, "
        f"{counters.delayed} delayed, {counters.held} in work by {counters.workers} workers"
        + (f"; {_fullness(counters)}" if counters.is_full else "")
    )


def _fullness(counters: FrontierState) -> str:
    share = counters.memory_used / counters.memory_limit
    return f"Redis is {share:.0%} full, seeds wait in Kafka until it is below 75%"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
