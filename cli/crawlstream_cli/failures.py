"""``crawlstream failures``: which pages of a crawl failed, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
import typer
from rich.markup import escape

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import CrawlstreamError
from crawlstream.model.event import PageFailed
from crawlstream.model.words.quantities import by_reason
from crawlstream_cli.common.cluster_requests import ends_of
from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.common.failed_pages import Failures, read_failures
from crawlstream_cli.common.which import AppId, Spider, which_crawl
from crawlstream_cli.common.words import counted
from crawlstream_cli.crawl.ending import REMEDIES

_PATIENCE_S = 600.0
_FIRST_ERROR = 400
_STATUS_DIGITS = 3


def failures(
    crawlid: Annotated[str, typer.Argument(metavar="CRAWL", help="Crawl whose failures to show.")],
    *,
    run: Annotated[int | None, typer.Option(min=1, help="Run; default: the latest.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="Pages to list per reason.")
    ] = 5,
    appid: AppId = None,
    spider: Spider = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the pages of a crawl that failed, by reason.

    A page failed if there is no response, or its callback raised an error. Responses with an error
    status, such as 404, are results: their number is shown for runs that have ended.

    Example: crawlstream failures spring-1 --appid myapp
    """
    settings = load_settings()
    found = asyncio.run(_read(settings, crawlid, run=run, limit=limit, appid=appid, spider=spider))
    if as_json:
        print_line(orjson.dumps(_record(found)).decode())
    else:
        _show(found)


async def _read(
    settings: Settings,
    crawlid: str,
    *,
    run: int | None,
    limit: int,
    appid: str | None,
    spider: str | None,
) -> Failures:
    crawl = await which_crawl(settings, crawlid, appid=appid, spider=spider)
    topic = settings.topics.events
    await ends_of(settings, topic)
    found = await read_failures(
        kafka_of(settings), topic, crawl, run=run, examples=limit, most_s=_PATIENCE_S
    )
    if found is None:
        named = "run" if run is None else f"run {run}"
        raise CrawlstreamError(
            f"no {named} of crawl {crawl.crawlid} of application {crawl.appid} found:"
            f" `{COMMAND} crawls` lists the crawls, `{COMMAND} runs CRAWL` their runs"
        )
    return found


def _show(found: Failures) -> None:
    one, console = found.run, stdout_console()
    failed = counted(found.counts.total(), "page")
    print_line(f"Crawl {one.crawl.crawlid}, run {one.run} ({one.state}): {failed} failed.")
    for reason, count in found.counts.most_common():
        remedy = f"  {REMEDIES[reason]}" if reason in REMEDIES else ""
        console.print(f"[bold]{escape(reason)}[/] {count:,}{remedy}", soft_wrap=True)
        for page in found.examples.get(reason, ()):
            console.print(f"  {escape(_line(page))}", soft_wrap=True, highlight=False)
        if more := count - len(found.examples.get(reason, ())):
            console.print(f"  [dim]… {more:,} more[/]")
    if errors := _error_statuses(found):
        print_line(f"Results with an error status: {by_reason(errors)}.")
    if not found.is_complete:
        print_line("There may be more: only the latest events were read.")


def _line(page: PageFailed) -> str:
    """A page, how often it was tried, and where its link was."""
    more = [f"{page.attempts} attempts"] if page.attempts > 1 else []
    more += [f"linked from {page.parent_url}"] if page.parent_url else []
    more += [page.detail] if page.detail else []
    return f"{page.url}  {'; '.join(more)}".rstrip()


def _error_statuses(found: Failures) -> Mapping[str, int]:
    statuses = found.run.reasons.get("done", {})
    return {
        status: count
        for status, count in statuses.items()
        if len(status) == _STATUS_DIGITS and status.isdigit() and int(status) >= _FIRST_ERROR
    }


def _record(found: Failures) -> dict[str, Any]:
    """The failures for programs."""
    one = found.run
    return {
        "appid": one.crawl.appid,
        "crawlid": one.crawl.crawlid,
        "spiderid": one.crawl.spiderid,
        "run": one.run,
        "state": one.state,
        "failed": dict(found.counts.most_common()),
        "pages": [_page(page) for pages in found.examples.values() for page in pages],
        "error_statuses": _error_statuses(found),
        "is_complete": found.is_complete,
    }


def _page(page: PageFailed) -> dict[str, Any]:
    return {
        "url": page.url,
        "reason": page.reason,
        "attempts": page.attempts,
        "depth": page.depth,
        "parent": page.parent_url,
        "detail": page.detail,
    }
