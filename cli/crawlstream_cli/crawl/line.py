"""The line that shows the progress of a crawl: updated on a terminal, repeated in a log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from crawlstream.boot.printable import printable
from crawlstream.model.words.quantities import by_reason, duration
from crawlstream.tasks import beside
from crawlstream_cli.crawl.watch import CrawlWatch

EVERY_S = 10.0
"""Seconds between lines when the output is not a terminal."""
_TICK_S = 0.2


@asynccontextmanager
async def living_line(console: Console, watch: CrawlWatch) -> AsyncIterator[None]:
    """Show the progress of a crawl as long as the context lasts."""
    if not console.is_terminal:
        async with beside(_repeat(console, watch)):
            yield
        return
    columns = (
        SpinnerColumn(),
        TimeElapsedColumn(),
        TextColumn(
            "{task.fields[line]}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis"),
        ),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        async with beside(_tick(bar, watch)):
            yield


async def _repeat(console: Console, watch: CrawlWatch) -> None:
    while True:
        await asyncio.sleep(EVERY_S)
        console.print(progress_text(watch), markup=False, highlight=False, soft_wrap=True)


async def _tick(bar: Bar, watch: CrawlWatch) -> None:
    task = bar.add_task("", total=None, line="")
    while True:
        bar.update(task, line=progress_text(watch))
        await asyncio.sleep(_TICK_S)


def progress_text(watch: CrawlWatch) -> str:
    """Return the progress of a crawl: pages by state, pace, expected end, and why it waits."""
    return printable(", ".join(_parts(watch)))


def _parts(watch: CrawlWatch) -> Iterator[str]:
    progress, state = watch.progress, watch.state
    if not progress.ended and not progress.accepted and state is None:
        yield "waiting for a kafka-monitor to process the request"
        return
    yield f"{progress.results:,} done"
    if state:
        yield f"{state.pending:,} waiting"
        yield f"{state.held:,} in flight"
    failed = sum(progress.failed.values())
    yield f"{failed:,} failed ({by_reason(progress.failed)})" if failed else "0 failed"
    yield f"{watch.rate:.1f} pages/s"
    if state and state.state != "running":
        yield state.state
    elif watch.absence:
        yield f"no crawler of spider {watch.lane!r}"
    else:
        yield from _pace(watch)


def _pace(watch: CrawlWatch) -> Iterator[str]:
    site = watch.site
    if watch.eta_s is not None:
        yield f"ETA {duration(watch.eta_s)}"
    if site and site.rule and site.rule.effective_hits:
        rule = site.rule
        if watch.state is None or watch.state.pending:
            yield f"next request {f'in {site.next_ms / 1000:.1f} s' if site.next_ms else 'now'}"
        yield f"{site.domain} gets {rule.effective_hits:,} per {rule.window_s:g} s"
        if site.strikes:
            yield "it is left alone for a while"
        elif site.is_outside_hours:
            yield "it wants no visits at this time of day"
    elif site:
        yield f"{site.domain} is blocked"
