"""The command: source, target, and progress for the user."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Annotated

import orjson
import typer

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.errors import ConfigError
from crawlstream.keys import MOST_PARTITIONS
from crawlstream_cli.common.client import cluster_frontier
from crawlstream_cli.common.console import print_line, stderr_console
from crawlstream_cli.common.words import counted
from crawlstream_cli.local.cluster import adopt_running_cluster
from crawlstream_cli.repartition.local import LocalMove, local_cluster
from crawlstream_cli.repartition.plan import MovePlan, plan_of
from crawlstream_cli.repartition.stages import Stages, until_nobody_lives
from crawlstream_frontier.moving.move import MoveProgress
from crawlstream_frontier.opening.servers import open_frontiers, shelf_of

_SHOWN_EVERY = 10_000


def repartition(  # noqa: PLR0913, PLR0917  an option each
    to: Annotated[
        int, typer.Option("--to", min=1, max=MOST_PARTITIONS, help="Number of partitions.")
    ],
    redis: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT,…", help="New Redis servers, each with an equal share of them."
        ),
    ] = "",
    cluster: Annotated[
        str, typer.Option(metavar="HOST:PORT,…", help="Nodes of a new Redis Cluster.")
    ] = "",
    namespace: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Name of the new frontier: another one if servers stay the same."
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be moved without doing it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for pages in flight, and for processes.")
    ] = 600,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Let the old frontier go on; delete what was copied.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Delete the old frontier, which was moved.")
    ] = False,
) -> None:
    """Move the frontier, with all running crawls, into another number of partitions.

    Crawling rests meanwhile; results stay where they are. The cluster that `up` has started is
    down afterwards; elsewhere, name the new servers, and stop all processes when the command says
    so. A move that was cut off is continued by the same command. The old data stay until --forget.

    Example: crawlstream repartition --to 3 --dry-run
    """
    if cancel and forget:
        raise ConfigError("--cancel and --forget: give one of them")
    is_local = not (redis or cluster or namespace)
    local = LocalMove(local_cluster(os.environ), to) if is_local else None
    if not is_local:
        adopt_running_cluster()
    old = local.settings() if local else load_settings()
    new = local.target() if local else target_of(old, to, redis, cluster, namespace)
    task = _Task(old, new, local, wait)
    if dry_run:
        _show(asyncio.run(task.plan()), to, as_json=as_json)
    elif cancel:
        asyncio.run(task.cancel())
    elif forget:
        asyncio.run(task.forget())
    else:
        asyncio.run(task.move())


def target_of(old: Settings, to: int, redis: str, cluster: str, namespace: str) -> Settings:
    """The settings of the new frontier; ConfigError: they cannot be used, or are the old ones."""
    if redis and cluster:
        raise ConfigError("--redis and --cluster: give one of them")
    same = ",".join(f"{host}:{port}" for host, port in old.redis_servers)
    is_cluster = bool(cluster) or (not redis and old.is_redis_cluster)
    new = load_settings(
        CRAWLSTREAM_NAMESPACE=namespace or old.namespace,
        CRAWLSTREAM_PARTITIONS=to,
        REDIS_CLUSTER=(cluster or same) if is_cluster else "",
        REDIS_HOSTS="" if is_cluster else (redis or same),
    )
    if (new.namespace, new.redis_servers) == (old.namespace, old.redis_servers):
        raise ConfigError(
            "the new frontier would be in the place of the old one: name other servers with --redis"
            " or --cluster, or another --namespace"
        )
    return new


class _Task:
    """Steps of the command, over clients of both frontiers."""

    def __init__(
        self, old: Settings, new: Settings, local: LocalMove | None, wait_s: float
    ) -> None:
        self._old = old
        self._new = new
        self._local = local
        self._wait_s = wait_s
        self._console = stderr_console()
        self._shown = 0

    async def plan(self) -> MovePlan:
        """Return the extent of the move."""
        async with AsyncExitStack() as stack:
            shelf = await stack.enter_async_context(shelf_of(self._old))
            old = await stack.enter_async_context(cluster_frontier(self._old, shelf))
            return await plan_of(old, shelf)

    async def move(self) -> None:
        """Move it."""
        moved = None
        if self._local:
            self._local.require_change()
        if not (self._local and self._local.is_copied):
            with self._servers():
                async with self._stages() as stages:
                    moved = await stages.run(self._until_stopped(stages))
        if self._local:
            self._local.place()
        self._tell(moved)

    async def cancel(self) -> None:
        """Let the old frontier go on."""
        if self._local and self._local.is_copied:
            raise ConfigError("the frontier was moved already: repeat the command without --cancel")
        with self._servers():
            async with self._stages() as stages:
                await stages.back()
        if self._local:
            self._local.drop()
        self._console.print("the old frontier goes on")

    async def forget(self) -> None:
        """Delete the old frontier."""
        if self._local:
            self._local.forget()
        else:
            async with self._stages() as stages:
                await stages.forget()
        self._console.print("the old frontier is deleted")

    @contextmanager
    def _servers(self) -> Iterator[None]:
        """On one machine, the servers that a move needs run for the length of the block."""
        if self._local is None:
            yield
            return
        try:
            self._local.begin()
            yield
        finally:
            self._local.end()

    @asynccontextmanager
    async def _stages(self) -> AsyncIterator[Stages]:
        async with AsyncExitStack() as stack:
            shelf = await stack.enter_async_context(shelf_of(self._old))
            old = await stack.enter_async_context(cluster_frontier(self._old, shelf))
            new = await stack.enter_async_context(open_frontiers(self._new, shelf=shelf))
            yield Stages(
                old=old,
                new=new,
                kafka=kafka_of(self._old),
                topics=self._old.topics,
                group=self._old.kafka_group,
                to=_named(self._new),
                shelf=shelf,
                dedupe_ms=self._old.dupefilter_timeout * 1000,
                wait_s=self._wait_s,
                say=self._console.print,
                told=self._progress,
            )

    def _until_stopped(self, stages: Stages) -> Callable[[], Awaitable[None]]:
        async def stopped() -> None:
            if self._local:
                await asyncio.to_thread(self._local.stop)
                self._local.start_old()
            await until_nobody_lives(stages.old, self._wait_s, self._console.print)

        return stopped

    def _progress(self, now: MoveProgress, waiting: int) -> None:
        if now.pages >= self._shown + _SHOWN_EVERY:
            self._shown = now.pages
            self._console.print(f"moved {now.pages:,} of {counted(waiting, 'page')}")

    def _tell(self, moved: MoveProgress | None) -> None:
        if moved is None:
            self._console.print("the frontier was moved already")
        else:
            self._console.print(
                f"moved {counted(moved.pages, 'waiting page')} of {counted(moved.crawls, 'crawl')}"
            )
            if moved.lost:
                self._console.print(
                    f"{counted(moved.lost, 'page')} failed: the shelf has lost them (shelf_lost)"
                )
        for line in self._local.after() if self._local else _after(self._new):
            print_line(line)


def _after(new: Settings) -> list[str]:
    """Return the settings to use from now on."""
    servers = ",".join(f"{host}:{port}" for host, port in new.redis_servers)
    number = new.partitions.number
    if number == 1 and not new.is_redis_cluster:
        host, _, port = servers.rpartition(":")
        where = [f"REDIS_HOST={host}", f"REDIS_PORT={port}"]
    else:
        kind = "REDIS_CLUSTER" if new.is_redis_cluster else "REDIS_HOSTS"
        where = [f"{kind}={servers}", f"CRAWLSTREAM_PARTITIONS={number}"]
    return [*where, f"CRAWLSTREAM_NAMESPACE={new.namespace}"]


def _named(new: Settings) -> str:
    servers = ",".join(f"{host}:{port}" for host, port in new.redis_servers)
    number = counted(new.partitions.number, "partition")
    return f"{number} of the frontier {new.namespace} at {servers}"


def _show(plan: MovePlan, to: int, *, as_json: bool) -> None:
    if as_json:
        print_line(orjson.dumps(plan).decode())
        return
    print_line(
        f"From {counted(plan.partitions, 'partition')} to {to}:"
        f" {counted(plan.crawls, 'crawl')} with {counted(plan.domains, 'domain')},"
        f" {counted(plan.waiting, 'waiting page')} ({plan.shelved:,} on the shelf,"
        f" {plan.delayed:,} delayed) and {counted(plan.seen, 'URL')} seen;"
        f" {counted(plan.held, 'page')} with crawlers first. About {plan.seconds:,} s of copying."
    )
