"""``crawlstream crawls``: every crawl that is known, and its progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import Annotated

import orjson
import typer
from rich.text import Text

from crawlstream.boot.settings import Settings, load_settings
from crawlstream.model.state import CrawlState
from crawlstream.model.words.condition import badge
from crawlstream.wire import views
from crawlstream_cli.common.client import cluster_frontier
from crawlstream_cli.common.columns import TableColumn, cell, print_columns
from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.common.times import moment, until
from crawlstream_cli.common.which import with_crawlers
from crawlstream_frontier.scrapes.scrape_names import is_scrapes

_COLOURS = {"running": "green", "paused": "yellow", "stopping": "yellow", "expiring": "yellow"}
_LONG_NAME, _NARROW = 24, 14
"""Characters from which on names are wrapped, and states and times may be."""


class ListedCrawls(StrEnum):
    """Crawls that are listed: those of clients, or those that REST makes for scrapes."""

    CRAWL = "crawl"
    SCRAPE = "scrape"


def crawls(
    appid: Annotated[str | None, typer.Option(help="Only crawls of this application.")] = None,
    spider: Annotated[
        str | None, typer.Option("--spider", "-s", help="Only crawls of this spider.")
    ] = None,
    state: Annotated[
        str | None, typer.Option(help="Only crawls in this state: running, paused, finished ...")
    ] = None,
    *,
    under_way: Annotated[
        bool, typer.Option("--under-way", "-u", help="Only crawls that have not ended.")
    ] = False,
    kind: Annotated[
        ListedCrawls,
        typer.Option(help="scrape: crawls of scrapes; one for each minute and REST process."),
    ] = ListedCrawls.CRAWL,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List current crawls and those that ended recently.

    "waiting" counts pages that are queued, "in flight" those being fetched, and "filtered" links
    that were not followed: duplicates, or outside the limits of the crawl.

    Example: crawlstream crawls --under-way
    """
    settings = load_settings()
    found = asyncio.run(read_crawls(settings, appid=appid, spiderid=spider))
    fitting = [
        crawl
        for crawl in found
        if state in (None, crawl.state)
        and (crawl.is_under_way or not under_way)
        and is_scrapes(crawl.crawl.crawlid) == (kind is ListedCrawls.SCRAPE)
    ]
    show_crawls(*asyncio.run(with_crawlers(settings, fitting)), as_json=as_json)


async def read_crawls(
    settings: Settings, *, appid: str | None = None, spiderid: str | None = None
) -> Sequence[CrawlState]:
    """All crawls of an application and spider, the latest activity first."""
    async with cluster_frontier(settings) as frontier:
        found = await frontier.queries.crawls(appid=appid, spiderid=spiderid)
    return sorted(found, key=lambda crawl: -crawl.last_activity)


def show_crawls(
    found: Sequence[CrawlState], spiders: Collection[str] | None, *, as_json: bool
) -> None:
    """A table for people, or a list of objects; ``spiders`` are those that crawlers run."""
    if as_json:
        print_line(orjson.dumps([views.crawl(crawl, spiders) for crawl in found]).decode())
    elif found:
        print_columns(stdout_console(), [*_columns(found, spiders)])
    else:
        print_line("No such crawl found.")


def _columns(found: Sequence[CrawlState], spiders: Collection[str] | None) -> Iterator[TableColumn]:
    keys, now = [state.crawl for state in found], time.time()
    yield TableColumn(name="crawl", cells=[cell(key.crawlid) for key in keys], narrowest=_LONG_NAME)
    apps = [cell(key.appid) for key in keys]
    yield TableColumn(name="app", cells=apps, narrowest=_LONG_NAME, spare=1)
    of_spider = [cell(key.spiderid) for key in keys]
    yield TableColumn(name="spider", cells=of_spider, narrowest=_LONG_NAME, spare=2)
    yield TableColumn(name="run", cells=[cell(state.run) for state in found], spare=3)
    states = [_state(state, spiders) for state in found]
    yield TableColumn(name="state", cells=states, narrowest=_NARROW)
    for name, counts, spare in (
        ("waiting", [state.pending for state in found], 0),
        ("in flight", [state.held for state in found], 4),
        ("done", [state.done for state in found], 0),
        ("failed", [state.failed for state in found], 0),
        ("filtered", [sum(state.filtered_by_reason.values()) for state in found], 5),
    ):
        cells = [cell(f"{count:,}") for count in counts]
        yield TableColumn(name=name, cells=cells, justify="right", spare=spare)
    active = [cell(moment(state.last_activity, now=now)) for state in found]
    yield TableColumn(name="active", cells=active, narrowest=_NARROW)


def _state(crawl: CrawlState, spiders: Collection[str] | None) -> Text:
    """Return the state, with the reason why it waits or has brought nothing."""
    told = badge(crawl, spiders)
    if told != crawl.state:
        return cell(told, "red")
    ends = f" {until(crawl.paused_until)}" if crawl.paused_until else ""
    return cell(told + ends, _COLOURS.get(crawl.state, "dim"))
