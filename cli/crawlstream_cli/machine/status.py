"""``crawlstream status``: running processes, and the cluster's counters."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from redis.exceptions import RedisError
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.printable import printable
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import CrawlstreamError
from crawlstream.model.process import Process
from crawlstream.model.state import FrontierState
from crawlstream.model.words.condition import IF_MISSPELT, no_crawler_of
from crawlstream.model.words.quantities import ago, duration
from crawlstream.stats.heartbeat import living_in
from crawlstream.wire import views
from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.common.lost_log import lost_logs
from crawlstream_cli.common.retention import retention_warnings
from crawlstream_cli.common.words import counted
from crawlstream_cli.local.cluster import LocalCluster
from crawlstream_cli.local.supervisor import ProcessInfo
from crawlstream_frontier.opening.redis_check import redis_warnings
from crawlstream_frontier.opening.servers import open_frontiers
from crawlstream_frontier.partitions.frontiers import Frontiers
from rest_service.runs.deliveries import Run, last_runs

_NOT_RUNNING = 3
"""As service managers say it."""

_PATIENCE_S = 3.0
_START_S = 60.0
"""Seconds after which a process that does not answer counts as hung, no longer as starting."""


@dataclass(frozen=True, slots=True)
class _RedisState:
    """State of the cluster according to Redis."""

    counters: FrontierState
    heard: Sequence[Process]
    """Every process with a recent heartbeat, on this machine or another."""
    warnings: Sequence[str]
    """Settings of Redis that may cost work, or the partition that does not answer."""
    servers: Sequence[str]
    """Where each partition is."""

    @property
    def lacking(self) -> Sequence[str]:
        """Spiders that pages wait for and no crawler runs."""
        there = {process.spider for process in self.heard if process.kind == "crawler"}
        waiting = self.counters.backlog.items()
        return [name for name, of in waiting if of["domains"] and name not in there]

    def of(self, process: ProcessInfo) -> Process | None:
        """Heartbeat of a process of this machine."""
        place = (socket.gethostname(), process.pid)
        return next((one for one in self.heard if (one.host, one.pid) == place), None)


@dataclass(frozen=True, slots=True)
class _Conditions:
    """Conditions of the processes, and the cluster's state from Redis."""

    conditions: Mapping[str, str]
    told: _RedisState | None
    ended: Sequence[Run]
    """The last run of each pipeline that no process runs now."""


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the processes of the cluster in CRAWLSTREAM_HOME and the counters of the frontier.

    Each process reports its own state. `waiting for kafka` means that it is running and continues
    as soon as Kafka answers. Processes on other machines that use the same Redis are shown from
    their heartbeats (state `heard`). Exit code 3 if no cluster is running here.
    """
    cluster = LocalCluster()
    processes = cluster.processes()
    told, ended, warnings = asyncio.run(_ask_all()) if processes else (None, (), ())
    says = _Conditions(cluster.conditions(processes), told, ended)
    if as_json:
        print_line(json.dumps({**_as_json(cluster, processes, says), "warnings": list(warnings)}))
    else:
        _show(cluster, processes, says)
        for warning in warnings:
            stdout_console(markup=False, highlight=False).print(f"warning: {warning}")
    if not processes:
        raise typer.Exit(_NOT_RUNNING)


async def _ask_all() -> tuple[_RedisState | None, Sequence[Run], Sequence[str]]:
    settings, now_ms = load_settings(), int(time.time() * 1000)
    told, ended, lost, near = await asyncio.gather(
        _ask(),
        _runs(settings),
        _warnings(lost_logs(settings)),
        _warnings(retention_warnings(settings, now_ms=now_ms)),
    )
    warnings = [*(told.warnings if told else ()), *lost, *near]
    return told, _without_process(ended, told), warnings


async def _runs(settings: Settings) -> Mapping[str, Run]:
    """Return the last run of each pipeline; {} if Kafka does not answer in time."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await last_runs(
                kafka_of(settings), settings.topics.events, most_s=_PATIENCE_S / 2
            )
    except (CrawlstreamError, TimeoutError):
        return {}


def _without_process(runs: Mapping[str, Run], told: _RedisState | None) -> Sequence[Run]:
    """Return the last runs of pipelines that no process runs now."""
    there = {name for one in (told.heard if told else ()) for name in one.pipelines}
    return [run for name, run in sorted(runs.items()) if name not in there]


async def _warnings(asked: Awaitable[Sequence[str]]) -> Sequence[str]:
    """Return warnings of records that Kafka has lost or may delete too soon.

    Empty if Kafka does not answer in time.
    """
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await asked
    except (CrawlstreamError, TimeoutError):
        return ()


async def _ask() -> _RedisState | None:
    """Return the state from Redis, None if it does not answer in time."""
    try:
        async with open_frontiers(load_settings()) as frontiers, asyncio.timeout(_PATIENCE_S):
            state, heard = await asyncio.gather(frontiers.queries.state(), _heard(frontiers))
            by_name = sorted(heard, key=lambda process: process.name)
            servers = [frontiers.machine(p) for p in range(len(frontiers))]
            return _RedisState(state, by_name, await _warnings_of(frontiers, state), servers)
    except (CrawlstreamError, RedisError, TimeoutError):
        return None


async def _heard(frontiers: Frontiers) -> Sequence[Process]:
    """Return no processes if partitions answer, but not those with the heartbeats."""
    try:
        return await living_in(frontiers.heartbeats)
    except RedisError:
        if len(frontiers) == 1:
            raise
        return ()


async def _warnings_of(frontiers: Frontiers, state: FrontierState) -> Sequence[str]:
    moved = [] if 0 in state.missing_partitions else await _moved(frontiers)
    if len(frontiers) == 1:
        return [*moved, *await redis_warnings(frontiers.root.scripts.redis)]
    return moved + [
        f"{frontiers.name(p)} does not answer: its domains rest, and are in none of the figures"
        for p in state.missing_partitions
    ]


async def _moved(frontiers: Frontiers) -> list[str]:
    if not await frontiers.root.positions.are_moved():
        return []
    sentence = (
        "the frontier is being moved, and nothing is crawled until that is over: repeat"
        f" {COMMAND} repartition, or give it up with --cancel"
    )
    return [sentence]


def _as_json(
    cluster: LocalCluster, processes: Sequence[ProcessInfo], says: _Conditions
) -> Mapping[str, object]:
    told = says.told
    return {
        "home": str(cluster.home.path),
        "running": bool(processes),
        "stopping": cluster.is_stopping,
        "addresses": cluster.addresses,
        "processes": [
            {
                "name": process.name,
                "kind": process.kind,
                "pid": process.pid,
                "state": process.state,
                "condition": says.conditions.get(process.name),
                "uptime_s": process.uptime_s,
                **_itself(told.of(process) if told else None),
            }
            for process in processes
        ],
        "heard": [views.process(process) for process in told.heard] if told else [],
        "lacking": list(told.lacking) if told else [],
        "ended_pipelines": list(says.ended),
        "counters": views.frontier(told.counters) if told else None,
        "partitions": _partitions(told) if told else [],
    }


def _partitions(told: _RedisState) -> Sequence[Mapping[str, object]]:
    missing = told.counters.missing_partitions
    return [
        {"partition": p, "server": server, "state": "unavailable" if p in missing else "ready"}
        for p, server in enumerate(told.servers)
    ]


def _itself(process: Process | None) -> Mapping[str, str | None]:
    """Return fields that are null for servers, and for a process before its first heartbeat."""
    return {
        "version": process.version if process else None,
        "host": process.host if process else None,
    }


def _show(cluster: LocalCluster, processes: Sequence[ProcessInfo], says: _Conditions) -> None:
    console, told = stdout_console(), says.told
    if not processes:
        console.print(_absence(cluster), highlight=False, soft_wrap=True)
        return
    others = list(told.heard) if told else []
    table = Table("process", "state", "pid", "up", "version", "host", box=None, header_style="dim")
    for process in processes:
        state, pid = _state(process, says.conditions.get(process.name)), str(process.pid or "")
        itself = told.of(process) if told else None
        if itself:
            others.remove(itself)
        versions = (itself.version, itself.host) if itself else ()
        table.add_row(process.name, state, pid, duration(process.uptime_s), *versions)
    for other in others:
        table.add_row(*_elsewhere(other))
    console.print(table)
    console.print(_in_words(told.counters if told else None), highlight=False)
    for spider in told.lacking if told else ():
        remedy = f"start one: {COMMAND} up --spider {spider}=1. {IF_MISSPELT}"
        console.print(f"[red]{escape(no_crawler_of(spider))}[/]; {escape(remedy)}", highlight=False)
    for run in says.ended:
        console.print(escape(_ended(run, time.time())), highlight=False)


def _ended(run: Run, now: float) -> str:
    """The last run of a pipeline that is not running."""
    where = f"its last run, {run['crawlid']} ({run['run']}), was stored"
    faults = [
        *(["it is incomplete"] if not run["complete"] else []),
        *([counted(run["undelivered"], "page") + " undelivered"] if run["undelivered"] else []),
        *(["its quality was missed"] if run.get("ok") is False else []),
    ]
    more = f": {', '.join(faults)}; see `{COMMAND} pipeline report {run['pipeline']}`"
    stored = f"{where} {ago(now - run['server_time'])}" + (more if faults else "")
    return f"pipeline {run['pipeline']} is not running; {stored}"


def _absence(cluster: LocalCluster) -> str:
    """Return why there is nothing to show."""
    left, home = cluster.leftovers(), cluster.home.path
    if cluster.is_stopping:
        return f"the cluster in {home} is stopping; {left} of its processes are still running"
    more = (
        f"\n{left} leftover processes of an earlier cluster: stop them with {COMMAND} down"
        if left
        else ""
    )
    return f"no cluster is running in {home}{more}"


def _state(process: ProcessInfo, condition: str | None) -> Text:
    """In one phrase: what supervisor knows, or what the process says where it runs."""
    if condition is None or process.state not in {"RUNNING", "STARTING"}:
        return Text(process.state.lower(), "red")
    if condition == "ready":
        return Text("running", "green")
    if condition == "starting" and process.uptime_s > _START_S:
        return Text("does not answer", "red")
    return Text(printable(condition), "yellow")


def _elsewhere(process: Process) -> Sequence[str]:
    """The row of a process that this supervisor did not start."""
    name = process.spider or process.kind
    up = duration(max(time.time() - process.started, 0))
    return name, "[green]heard[/]", str(process.pid), up, process.version, process.host


def _in_words(counters: FrontierState | None) -> str:
    if counters is None:
        return "Redis does not answer"
    waiting = counted(counters.queued + counters.delayed, "page")
    parts = (counters.delayed, "delayed"), (counters.shelved, "on the shelf")
    of_them = ", ".join(f"{count:,} {word}" for count, word in parts if count)
    return (
        f"{counted(counters.crawls, 'running crawl')}, {waiting} waiting"
        + (f" ({of_them})" if of_them else "")
        + f", {counters.held:,} in flight at {counted(counters.workers, 'worker')}"
        + (
            f", {counters.spilled:,} spilled to Kafka because Redis is full"
            if counters.spilled
            else ""
        )
        + (f"; {_fullness(counters)}" if counters.is_full else "")
        + (f"; {_imbalance(counters)}" if counters.residual else "")
    )


def _fullness(counters: FrontierState) -> str:
    share = counters.memory_used / counters.memory_limit
    return f"Redis memory is {share:.0%} used; seeds stay in Kafka until it is below 75%"


def _imbalance(counters: FrontierState) -> str:
    return (
        f"THE LEDGER DOES NOT BALANCE: {counters.residual} pages are unaccounted for; please"
        " report this bug"
    )
