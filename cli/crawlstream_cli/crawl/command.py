"""``crawlstream crawl``: feed, follow, write results, end with the crawl."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from crawlstream.boot.settings import load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import ConfigError
from crawlstream.model.crawl import CrawlKey
from crawlstream.wire import jsontext
from crawlstream_cli.common.cluster_requests import APPID
from crawlstream_cli.common.console import print_line, stderr_console
from crawlstream_cli.common.option_sets import has_options_of
from crawlstream_cli.crawl.ending import Summary, exit_code, print_json, print_result
from crawlstream_cli.crawl.interruption import until_signal
from crawlstream_cli.crawl.recurring import Recurring, cron_of, definition_of, name_of
from crawlstream_cli.crawl.request_options import RequestOptions, for_output, hosts_of, seed
from crawlstream_cli.crawl.results import check_output
from crawlstream_cli.crawl.session import CrawlSession, find_crawl
from crawlstream_cli.schedule import put, start

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="File for the results: .jsonl, .jsonl.gz, .jsonl.zst, .warc.gz, .wacz or"
        " .parquet, by its name; - for JSON lines on stdout. A file that exists is replaced at the"
        " end.",
    ),
]


AppId = Annotated[
    str | None,
    typer.Option("--appid", help=f"Application id (appid). [default: {APPID}; with --attach: any]"),
]


@has_options_of(RequestOptions)
def crawl(
    urls: Annotated[list[str] | None, typer.Argument(metavar="URL...", help="Seed URLs.")] = None,
    *,
    spider: Annotated[str, typer.Option("--spider", "-s", help="Spider to use.")] = "link",
    appid: AppId = None,
    output: Output = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Print the id of the crawl and leave it running.")
    ] = False,
    attach: Annotated[
        str | None,
        typer.Option(metavar="CRAWL", help="Follow a running crawl from its beginning."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as one line of JSON.")
    ] = False,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Crawl now, and repeat it by a schedule: 30m, 12h, 1d, 7d, or a cron"
            " expression in UTC.",
        ),
    ] = None,
    **wished: Any,
) -> None:
    """Crawl from one or more URLs and wait for the end.

    Follows links to the hosts of the seeds only, unless --scope says otherwise. Lists pages as they
    arrive, or writes the records of the result topic to a file, each once. The file gets its name
    when it is complete, or when the command is interrupted. Ctrl-C, SIGTERM and a closed terminal
    also stop the crawl in the cluster, unless it was only attached to.

    Exit code 0: the crawl finished and fetched a page (--detach: its seeds were fed); 1: it fetched
    none, did not finish, or a seed was rejected; 2: the command is wrong; 130, 143, 129: stopped by
    Ctrl-C, SIGTERM, SIGHUP.

    With --every, sets a schedule that is named after the host of the first seed, fires it, and
    ends: `crawlstream schedule list` shows it.

    Example: crawlstream crawl https://example.com/ --depth 2 -o pages.jsonl
    """
    settings, wishes = load_settings(), RequestOptions(**wished)
    is_plain = wishes == RequestOptions() and not detach and every is None
    _check_use(urls, attach, is_plain=is_plain, writes_detached=detach and output is not None)
    if every is not None:
        again = _again(wished, every, spider, waits=output is not None or detach)
        _crawl_again(urls or (), again, appid or APPID, as_json=as_json)
        return
    check_output(output)
    if attach is not None:
        run = asyncio.run(find_crawl(settings, attach, appid=appid, spider=spider))
        session = CrawlSession(settings, run.crawl, output=output)
        summary = until_signal(session.attach(run))
    else:
        name = CrawlKey(spider, appid or APPID, uuid.uuid4().hex[:12])
        wishes = for_output(wishes, output)
        common = wishes.fields(urls or ())
        requests = [{**seed(name, url, number), **common} for number, url in enumerate(urls or ())]
        session = CrawlSession(settings, name, output=output, hosts=hosts_of(requests))
        if detach:
            raise typer.Exit(until_signal(session.detach(requests, as_json=as_json)))
        summary = until_signal(session.follow(requests))
    _tell(summary, as_json=as_json)
    raise typer.Exit(exit_code(summary.progress))


def _tell(summary: Summary, *, as_json: bool) -> None:
    """Print how the crawl went."""
    if as_json:
        print_json(summary)
    else:
        print_result(summary, stderr_console())


def _again(wished: Mapping[str, Any], every: str, spider: str, *, waits: bool) -> Recurring:
    """The options of a crawl that is repeated; ConfigError."""
    if waits:
        raise ConfigError(
            "--every ends when the schedule is set, and writes no results: leave out --output and"
            f" --detach; `{COMMAND} pipeline` stores the results of all firings"
        )
    return Recurring(**wished, cron=cron_of(every), spider=spider)


def _crawl_again(urls: Sequence[str], wishes: Recurring, appid: str, *, as_json: bool) -> None:
    """Set a schedule, and fire it at once."""
    name = name_of(urls)
    reply, sentence = put(name, definition_of(name, urls, wishes), appid=appid)
    start(name, appid=appid)
    if as_json:
        print_line(jsontext.dumps(reply).decode())
        return
    print_line(f"{sentence} It fires now, too.")
    of_app = "" if appid == APPID else f" --appid {appid}"
    print_line(f"`{COMMAND} schedule show {name}{of_app}` shows it, `schedule rm` removes it.")


def _check_use(
    urls: list[str] | None, attach: str | None, *, is_plain: bool, writes_detached: bool
) -> None:
    """ConfigError for what contradicts itself."""
    if writes_detached:
        raise ConfigError("--detach writes no results: leave out --output, and --attach it")
    if not urls and attach is None:
        raise ConfigError("expected at least one URL to crawl, or --attach and the id of a crawl")
    if attach is not None and (urls or not is_plain):
        raise ConfigError(
            "--attach follows a crawl as it is: leave out URLs and all options but --appid,"
            " --spider, --output and --json"
        )
