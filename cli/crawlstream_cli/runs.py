"""``crawlstream runs`` and ``compare``: what a crawl was before, and what has changed since."""

from __future__ import annotations

import asyncio
from typing import Annotated

import orjson
import typer
from rich.markup import escape
from rich.table import Table

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.run_history import CHANGES, Comparison, CrawlRun, RunHistory
from crawlstream.model.words.price import amounts
from crawlstream.model.words.quantities import duration
from crawlstream.wire import views
from crawlstream_cli.common.cluster_requests import ends_of
from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.common.times import moment
from crawlstream_cli.common.which import AppId, Spider, which_crawl
from rest_service.runs.compare import compare as compare_runs
from rest_service.runs.history import read_history

_PATIENCE_S = 600.0
_MOST = 1_000_000
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_NAMES = {"new": "new", "gone": "gone", "status": "other status", "content": "other content"}


def runs(
    crawlid: Annotated[str, typer.Argument(metavar="CRAWL", help="Crawl whose runs are listed.")],
    appid: AppId = None,
    spider: Spider = None,
    as_json: AsJson = False,
) -> None:
    """List the runs of a crawl, as far as the events topic has them.

    Example: crawlstream runs spring-1 --appid myapp
    """
    settings = load_settings()

    async def work() -> RunHistory:
        return await _history(
            settings, await which_crawl(settings, crawlid, appid=appid, spider=spider)
        )

    found = asyncio.run(work())
    if as_json:
        told = {"runs": [views.run(one) for one in found.runs], "is_complete": found.is_complete}
        print_line(orjson.dumps(told).decode())
        return
    stdout_console().print(_table_of(found))
    if not found.is_complete:
        print_line("There may be older runs: only the latest events were read.")


def compare(
    crawlid: Annotated[str, typer.Argument(metavar="CRAWL", help="Crawl to compare.")],
    *,
    before: Annotated[
        int | None, typer.Option(min=1, help="Earlier run; default: the run before the other one.")
    ] = None,
    after: Annotated[
        int | None, typer.Option(min=1, help="Later run; default: the latest run.")
    ] = None,
    before_crawl: Annotated[
        str | None, typer.Option(help="Crawl of the earlier run, if it is another one.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="Pages to list per change.")
    ] = 20,
    appid: AppId = None,
    spider: Spider = None,
    as_json: AsJson = False,
) -> None:
    """Compare the results of two runs: pages that are new, gone, or have changed.

    A page has changed if its status or its body has. The results topic must still have the results
    of both runs. Of runs with more than 1 000 000 pages, a sample is compared.

    Example: crawlstream compare spring-1 --before 1 --after 3
    """
    settings = load_settings()

    async def work() -> Comparison:
        key = await which_crawl(settings, crawlid, appid=appid, spider=spider)
        earlier = key
        if before_crawl:
            earlier = await which_crawl(settings, before_crawl, appid=appid, spider=spider)
        pair = await _pair(settings, key, earlier, before=before, after=after)
        topic, kafka = settings.topics.crawled, kafka_of(settings)
        return await compare_runs(kafka, topic, *pair, listed=limit, most_pages=_MOST, most_s=None)

    found = asyncio.run(work())
    if as_json:
        print_line(orjson.dumps(views.comparison(found)).decode())
    else:
        _show(found)


async def _history(settings: Settings, key: CrawlKey) -> RunHistory:
    topic = settings.topics.events
    await ends_of(settings, topic)
    found = await read_history(kafka_of(settings), topic, key, most_s=_PATIENCE_S)
    if not found.runs:
        raise CrawlstreamError(
            f"no run of crawl {key.crawlid} of application {key.appid} found: `{COMMAND} crawls`"
            " lists the crawls"
        )
    return found


async def _pair(
    settings: Settings,
    key: CrawlKey,
    earlier: CrawlKey,
    *,
    before: int | None,
    after: int | None,
) -> tuple[CrawlRun, CrawlRun]:
    known = await _history(settings, key)
    later = known.find(after)
    if later is None:
        raise CrawlstreamError(f"crawl {key.crawlid} has no run {after}")
    if earlier != key:
        first = (await _history(settings, earlier)).find(before)
    else:
        first = known.find(before) if before else known.before(later.run)
    if first is None:
        named = f"run {before}" if before else f"run before run {later.run}"
        raise CrawlstreamError(
            f"crawl {earlier.crawlid} has no {named}: feed it again for another run, or name"
            " another crawl with --before-crawl"
        )
    return first, later


def _named(run: CrawlRun) -> str:
    return f"run {run.run} of {run.crawl.crawlid}, started {moment(run.started_at)}"


def _table_of(found: RunHistory) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("run", "state", "started", "took"):
        table.add_column(name, no_wrap=True)
    for name in ("admitted", "done", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    if is_paid := any(one.reasons.get("charged") for one in found.runs):
        table.add_column("charged", justify="right", no_wrap=True)
    for one in found.runs:
        took = duration(one.ended_at - one.started_at) if one.ended_at else ""
        counts = [_count(one, name) for name in ("admitted", "done", "failed")]
        paid = [amounts(one.reasons.get("charged", {}))] if is_paid else []
        table.add_row(str(one.run), one.state, moment(one.started_at), took, *counts, *paid)
    return table


def _count(run: CrawlRun, name: str) -> str:
    return f"{run.counters[name]:,}" if name in run.counters else ""


def _show(found: Comparison) -> None:
    counts = found.counts
    told = ", ".join(f"{counts[name]:,} {_NAMES[name]}" for name in CHANGES)
    before, after = _named(found.before), _named(found.after)
    print_line(f"Before: {before}")
    print_line(f"After:  {after}")
    print_line(f"{told}, {counts['same']:,} unchanged.")
    if found.share < 1:
        print_line(f"The runs are large: a sample was compared, {found.share:.2%} of all URLs.")
    console = stdout_console()
    for name in CHANGES:
        for page in found.changes[name]:
            was = f"{page.before or '-'} -> {page.after or '-'}"
            console.print(
                f"[bold]{_NAMES[name]:<13}[/] {was:<10} {escape(page.url)}", soft_wrap=True
            )
        if more := counts[name] - len(found.changes[name]):
            console.print(f"[dim]{_NAMES[name]:<13} … {more:,} more[/]")
