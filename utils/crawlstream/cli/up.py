"""``crawlstream up``: start a cluster on this machine, and keep it while the terminal is there."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from crawlstream.boot.misspelt import misspelt
from crawlstream.cli.console import stderr_console
from crawlstream.errors import SetupError
from crawlstream.local.cluster import LocalCluster
from crawlstream.local.readiness import Progress

_LOOK_EVERY_S = 0.5


def up(
    detach: Annotated[
        bool,
        typer.Option(
            "--detach", "-d", help="Return when the cluster is ready; stop it with `down`."
        ),
    ] = False,
    workers: Annotated[
        int, typer.Option(min=0, max=64, help="Number of crawlers with the `link` spider.")
    ] = 1,
    wanderers: Annotated[
        int, typer.Option(min=0, max=64, help="Number of crawlers with the `wandering` spider.")
    ] = 0,
) -> None:
    """Start Redis, ZooKeeper, Kafka, the monitors and the crawlers in CRAWLSTREAM_HOME.

    A server named by KAFKA_HOSTS, ZOOKEEPER_HOSTS or REDIS_HOST is used instead of starting one.

    Example: crawlstream up -d --workers 2
    """
    console = stderr_console()
    for sentence in misspelt(os.environ):
        console.print(sentence, style="yellow", highlight=False, soft_wrap=True)
    cluster = LocalCluster()
    with _ends_as_interrupt():
        started_at = time.monotonic()
        with showing(console) as progress:
            cluster.start(workers=workers, wanderers=wanderers, progress=progress, tied=not detach)
        console.print(f"ready in {time.monotonic() - started_at:.0f} s", style="green")
        _tell_addresses(console, cluster)
        if not detach:
            _stay(cluster, console)


@contextmanager
def showing(console: Console) -> Iterator[Progress]:
    """Show the parts of a starting cluster, live on a terminal, else one line a change."""
    if not console.is_terminal:
        said: dict[str, str] = {}

        def say(states: Mapping[str, str]) -> None:
            for name, state in states.items():
                if state == "ready" != said.get(name):
                    console.print(f"{name} {state}", highlight=False)
                said[name] = state

        yield say
        return
    with Live(console=console, refresh_per_second=10, transient=True) as live:
        yield lambda states: live.update(_as_table(states))


def _as_table(states: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, state in states.items():
        mark = "[green]●[/]" if state == "ready" else "[yellow]○[/]"
        table.add_row(mark, name, "" if state == "ready" else f"[dim]{state}[/]")
    return table


def _tell_addresses(console: Console, cluster: LocalCluster) -> None:
    addresses = cluster.addresses
    for name in ("KAFKA_HOSTS", "ZOOKEEPER_HOSTS", "REDIS_HOST", "REDIS_PORT"):
        if name in addresses:
            console.print(f"  export {name}={addresses[name]}", highlight=False)
    if cluster.home.redis_password and "REDIS_PASSWORD" in cluster.told:
        console.print(f"  REDIS_PASSWORD is in {cluster.home.conf}", highlight=False)
    console.print(f"  http://127.0.0.1:{addresses['CRAWLSTREAM_REST_PORT']}", highlight=False)
    console.print("crawl something: ./crawlstream crawl URL", highlight=False)


def _stay(cluster: LocalCluster, console: Console) -> None:
    """Keep the cluster until somebody ends this command or supervisord."""
    console.print("Ctrl-C stops it", style="dim")
    try:
        while cluster.is_running:
            time.sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt:
        console.print("stopping", style="dim")
    else:
        if left := cluster.stop():
            raise SetupError(
                f"supervisord has exited unexpectedly; its {left} remaining processes were stopped"
            )
        return
    _ignore_ends()
    cluster.stop()
    raise typer.Exit(130)


@contextmanager
def _ends_as_interrupt() -> Iterator[None]:
    """Let a closed terminal and a TERM end this command as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        _ignore_ends()
        raise KeyboardInterrupt

    kept = {number: signal.signal(number, interrupt) for number in _ENDS}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _ignore_ends() -> None:
    """From here on everything is being stopped, which must not be cut short."""
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)
