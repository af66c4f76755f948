"""``crawlstream up``: start a cluster on this machine, and keep it while the terminal is there."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from crawlstream.boot.misspelt import misspelt
from crawlstream.boot.settings import load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import ConfigError, SetupError
from crawlstream.model.egress.render import lane_of
from crawlstream_cli.common.console import stderr_console
from crawlstream_cli.common.user_agent import placeholder_warning
from crawlstream_cli.crawl.interruption import ends_as_interrupt
from crawlstream_cli.local.cluster import LocalCluster, adopt_running_cluster
from crawlstream_cli.local.crawlers import MOST
from crawlstream_cli.local.partitions import MOST_LOCAL
from crawlstream_cli.local.ports import MOST_PIPELINES
from crawlstream_cli.local.readiness import NotReady, Progress

_LOOK_EVERY_S = 0.5
_Pipelines = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=MOST_PIPELINES,
        help="Number of pipeline processes; default: 1 with a pipelines.toml.",
    ),
]

_Partitions = Annotated[
    int | None,
    typer.Option(
        min=2,
        max=MOST_LOCAL,
        help="Number of Redis servers that share the frontier; for a new cluster only.",
    ),
]

_Wanderers = Annotated[
    int | None,
    typer.Option(
        min=0, max=MOST, help="Same as --spider wandering=N, a bundled spider; default: 0."
    ),
]

_Renderers = Annotated[
    int | None,
    typer.Option(
        min=0, max=MOST, help="Same as --spider link+render=N: crawlers with a browser; default: 0."
    ),
]


def up(  # noqa: PLR0917 typer passes keywords
    detach: Annotated[
        bool,
        typer.Option(
            "--detach", "-d", help="Return when the cluster is ready; stop it with `down`."
        ),
    ] = False,
    spider: Annotated[
        list[str] | None,
        typer.Option(
            "--spider",
            metavar="NAME=N",
            help="Number of crawlers with a spider, bundled or your own; repeatable.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, max=MOST, help="Same as --spider link=N; default: 1.")
    ] = None,
    wanderers: _Wanderers = None,
    renderers: _Renderers = None,
    pipelines: _Pipelines = None,
    partitions: _Partitions = None,
) -> None:
    """Start Redis, ZooKeeper, Kafka, the monitors and the crawlers in CRAWLSTREAM_HOME.

    A server named by KAFKA_HOSTS, ZOOKEEPER_HOSTS or REDIS_HOST is used instead of starting one.
    Spiders of your own are found in the Scrapy project around the current directory and in
    CRAWLSTREAM_SPIDER_MODULES. If the cluster is running already, only the numbers of crawlers of
    the named spiders are changed; crawlers that are removed finish their current downloads.

    Example: crawlstream up -d --spider link=2 --spider shop=1
    """
    console = stderr_console()
    for sentence in misspelt(os.environ):
        console.print(sentence, style="yellow", highlight=False, soft_wrap=True)
    spiders = _counts(spider or (), workers=workers, wanderers=wanderers, renderers=renderers)
    cluster = LocalCluster()
    if spiders and cluster.is_running and not cluster.is_stopping:
        _scale(spiders, console, pipelines=pipelines, partitions=partitions)
        return
    with ends_as_interrupt():
        started_at = time.monotonic()
        with showing(console) as progress, _late_is_no_end():
            wanted = {"link": 1, **spiders}
            cluster.start(
                spiders=wanted,
                pipelines=pipelines,
                partitions=partitions,
                progress=progress,
                patience_s=None if detach else inf,
                tied=not detach,
            )
        console.print(f"ready in {time.monotonic() - started_at:.0f} s", style="green")
        _tell_addresses(console, cluster)
        if detach:
            console.print(f"stop it: {COMMAND} down", highlight=False)
        else:
            _stay(cluster, console)


def _counts(named: Iterable[str], **aliases: int | None) -> Mapping[str, int]:
    """Return the requested number of crawlers per spider; ConfigError if it is not NAME=N."""
    counts = {_ALIASES[name]: count for name, count in aliases.items() if count is not None}
    for text in named:
        name, _, number = text.rpartition("=")
        is_number = number.isascii() and number.isdigit() and int(number) <= MOST
        if not (name and is_number):
            raise ConfigError(
                f"--spider {text!r}: expected the name of a spider, '=' and a number from 0 to"
                f" {MOST}, such as --spider link=2"
            )
        if counts.setdefault(name, int(number)) != int(number):
            raise ConfigError(f"two different numbers of crawlers are given for spider {name!r}")
    return counts


_ALIASES = {"workers": "link", "wanderers": "wandering", "renderers": lane_of("link", renders=True)}


def _scale(
    spiders: Mapping[str, int], console: Console, *, pipelines: int | None, partitions: int | None
) -> None:
    """Change the crawlers of the cluster that runs, and nothing else of it."""
    if partitions is not None:
        raise SetupError(
            "--partitions is chosen when a cluster is started for the first time, and this one is"
            " running: leave it out, or set CRAWLSTREAM_HOME to another directory"
        )
    if pipelines is not None:
        raise SetupError(
            "--pipelines takes effect when a cluster starts, and this one is running: stop it"
            f" with {COMMAND} down, or run more beside it with {COMMAND} pipeline run"
        )
    adopt_running_cluster()
    with showing(console) as progress, _late_is_no_end():
        LocalCluster().scale(spiders, progress=progress)
    told = ", ".join(f"{count} of {name}" for name, count in spiders.items())
    console.print(f"the running cluster has crawlers: {told}", style="green", highlight=False)


@contextmanager
def _late_is_no_end() -> Iterator[None]:
    """Add to NotReady what a person can do about it."""
    try:
        yield
    except NotReady as late:
        raise NotReady(
            f"{late}; what is ready stays up and the rest goes on starting: `{COMMAND} status`"
            f" shows how far it is, `{COMMAND} down` stops it"
        ) from late


@contextmanager
def showing(console: Console) -> Iterator[Progress]:
    """Show the parts of a starting cluster, live on a terminal, else one line a change."""
    if not console.is_terminal:
        said: dict[str, str] = {}

        def say(states: Mapping[str, str]) -> None:
            for name, state in states.items():
                if state != said.get(name, "starting"):
                    console.print(f"{name} {state}", highlight=False, soft_wrap=True)
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
    for name in ("KAFKA_HOSTS", "ZOOKEEPER_HOSTS", "REDIS_HOST", "REDIS_PORT", "REDIS_HOSTS"):
        if name in addresses:
            console.print(f"  export {name}={addresses[name]}", highlight=False)
    password = cluster.client_settings.get("REDIS_PASSWORD")
    if password and password == cluster.home.redis_password:
        file = shlex.quote(str(cluster.home.password_file))
        console.print(f"  export REDIS_PASSWORD=$(cat {file})", highlight=False, soft_wrap=True)
    dashboard = f"http://127.0.0.1:{addresses['CRAWLSTREAM_REST_PORT']}"
    console.print(f"dashboard and REST: {dashboard}", highlight=False)
    console.print(f"crawl something: {COMMAND} crawl URL", highlight=False)
    if warning := placeholder_warning(load_settings()):
        console.print(warning, style="yellow", highlight=False, soft_wrap=True)


def _stay(cluster: LocalCluster, console: Console) -> None:
    """Keep the cluster until the user ends this command or supervisord."""
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
    cluster.stop()
    raise typer.Exit(130)
