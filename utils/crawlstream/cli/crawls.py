"""``crawlstream crawls``: every crawl that is remembered, and how far it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import Annotated

import orjson
import typer
from rich.markup import escape
from rich.table import Table

from crawlstream.boot.settings import Settings, load_settings
from crawlstream.cli.common.client import cluster_redis
from crawlstream.cli.common.console import say, stdout_console
from crawlstream.cli.common.times import ago
from crawlstream.cli.common.which import crawled_spiders, waiting_for
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
    settings = load_settings()
    found = asyncio.run(read_crawls(settings, appid=appid, spiderid=spider))
    fitting = [
        crawl
        for crawl in found
        if state in (None, crawl.state) and (crawl.is_under_way or not under_way)
    ]
    show_crawls(fitting, asyncio.run(crawled_spiders(settings)), as_json=as_json)


async def read_crawls(
    settings: Settings, *, appid: str | None = None, spiderid: str | None = None
) -> Sequence[CrawlState]:
    """All crawls of an application and spider, the latest activity first."""
    async with cluster_redis(settings) as redis:
        queries = Frontier(redis, settings.keys).queries
        found = await queries.crawls(appid=appid, spiderid=spiderid)
    return sorted(found, key=lambda crawl: -crawl.last_activity)


def show_crawls(
    found: Sequence[CrawlState], spiders: Collection[str] | None, *, as_json: bool
) -> None:
    """A table for people, or a list of objects; ``spiders`` are those that crawlers run."""
    if as_json:
        say(orjson.dumps([views.crawl(crawl) for crawl in found]).decode())
    elif found:
        stdout_console().print(_table(found, spiders))
    else:
        say("No such crawl found.")


def _table(found: Sequence[CrawlState], spiders: Collection[str] | None) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("crawl", "app", "spider"):
        table.add_column(name, overflow="fold")
    table.add_column("run", no_wrap=True)
    table.add_column("state")
    for name in ("waiting", "in flight", "done", "failed", "filtered"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("active", justify="right")
    now = time.time()
    for crawl in found:
        waits = waiting_for(crawl, spiders)
        colour = "red" if waits else _COLOURS.get(crawl.state, "dim")
        table.add_row(
            escape(crawl.crawl.crawlid),
            escape(crawl.crawl.appid),
            escape(crawl.crawl.spiderid),
            str(crawl.run),
            f"[{colour}]{escape(waits or crawl.state)}[/]",
            *(f"{n:,}" for n in (crawl.pending, crawl.held, crawl.done, crawl.failed)),
            f"{sum(crawl.filtered_by_reason.values()):,}",
            ago(now - crawl.last_activity),
        )
    return table
