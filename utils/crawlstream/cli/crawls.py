"""``crawlstream crawls``: every crawl that is remembered, and how far it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated

import orjson
import typer
from rich.markup import escape
from rich.table import Table

from crawlstream.boot.settings import Settings, load_settings
from crawlstream.cli.client import cluster_redis
from crawlstream.cli.console import say, stdout_console
from crawlstream.cli.times import ago
from crawlstream.frontier.frontier import Frontier
from crawlstream.model.state import CrawlState
from crawlstream.wire import views

_COLOURS = {"running": "green", "paused": "yellow", "stopping": "yellow", "expiring": "yellow"}


def crawls(
    appid: Annotated[str | None, typer.Option(help="Only crawls of this application.")] = None,
    spider: Annotated[
        str | None, typer.Option("--spider", "-s", help="Only crawls of this spider.")
    ] = None,
    state: Annotated[
        str | None, typer.Option(help="Only crawls in this state: running, paused, finished ...")
    ] = None,
    under_way: Annotated[
        bool, typer.Option("--under-way", "-u", help="Only crawls that have not ended.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List current crawls and those that ended recently.

    The command reads only counters from the frontier, so large crawls take no longer than small
    ones.

    Example: crawlstream crawls --under-way
    """
    found = asyncio.run(read_crawls(load_settings(), appid=appid, spiderid=spider))
    fitting = [
        crawl
        for crawl in found
        if state in (None, crawl.state) and (crawl.is_under_way or not under_way)
    ]
    show_crawls(fitting, as_json=as_json)


async def read_crawls(
    settings: Settings, *, appid: str | None = None, spiderid: str | None = None
) -> Sequence[CrawlState]:
    """All crawls of an application and spider, the latest activity first."""
    async with cluster_redis(settings) as redis:
        found = await Frontier(redis, settings.keys).crawls(appid=appid, spiderid=spiderid)
    return sorted(found, key=lambda crawl: -crawl.last_activity)


def show_crawls(found: Sequence[CrawlState], *, as_json: bool) -> None:
    """A table for people, or a list of objects."""
    if as_json:
        say(orjson.dumps([views.crawl(crawl) for crawl in found]).decode())
    elif found:
        stdout_console().print(_table(found))
    else:
        say("No such crawl found.")


def _table(found: Sequence[CrawlState]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("crawl", "app", "spider"):
        table.add_column(name, overflow="fold")
    for name in ("run", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("waiting", "in flight", "done", "failed", "filtered"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("active", justify="right")
    now = time.time()
    for crawl in found:
        colour = _COLOURS.get(crawl.state, "dim")
        table.add_row(
            escape(crawl.crawl.crawlid),
            escape(crawl.crawl.appid),
            escape(crawl.crawl.spiderid),
            str(crawl.run),
            f"[{colour}]{crawl.state}[/]",
            *map(str, (crawl.pending, crawl.held, crawl.done, crawl.failed)),
            str(sum(crawl.filtered_by_reason.values())),
            ago(now - crawl.last_activity),
        )
    return table
