"""``crawlstream crawl``: feed, follow, write results, end with the crawl."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError
from crawlstream.model.crawl import CrawlKey
from crawlstream_cli.common.ask import APPID
from crawlstream_cli.common.console import stderr_console
from crawlstream_cli.common.option_sets import has_options_of
from crawlstream_cli.crawl.ending import exit_code, tell, tell_json
from crawlstream_cli.crawl.interruption import until_signal
from crawlstream_cli.crawl.requests import Wishes, hosts_of, seed
from crawlstream_cli.crawl.results import check_output
from crawlstream_cli.crawl.session import Session, find_crawl

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="File for the results: .jsonl, .jsonl.gz, .jsonl.zst, .warc.gz or .parquet, by its"
        " name; - for JSON lines on stdout. A file that exists is replaced at the end.",
    ),
]


AppId = Annotated[
    str | None,
    typer.Option("--appid", help=f"Application id (appid). [default: {APPID}; with --attach: any]"),
]


@has_options_of(Wishes)
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

    Example: crawlstream crawl https://example.com/ --depth 2 -o pages.jsonl
    """
    settings, wishes = load_settings(), Wishes(**wished)
    _check_use(urls, attach, is_plain=wishes == Wishes() and not detach)
    check_output(output)
    if attach is not None:
        run = asyncio.run(find_crawl(settings, attach, appid=appid, spider=spider))
        session = Session(settings, run.crawl, output=output)
        summary = until_signal(session.attach(run))
    else:
        name = CrawlKey(spider, appid or APPID, uuid.uuid4().hex[:12])
        common = wishes.fields(urls or ())
        requests = [{**seed(name, url, number), **common} for number, url in enumerate(urls or ())]
        session = Session(settings, name, output=output, hosts=hosts_of(requests))
        if detach:
            if output is not None:
                raise ConfigError("--detach writes no results: leave out --output, and --attach it")
            raise typer.Exit(until_signal(session.detach(requests, as_json=as_json)))
        summary = until_signal(session.follow(requests))
    if as_json:
        tell_json(summary)
    else:
        tell(summary, stderr_console())
    raise typer.Exit(exit_code(summary.progress))


def _check_use(urls: list[str] | None, attach: str | None, *, is_plain: bool) -> None:
    """ConfigError for what contradicts itself."""
    if not urls and attach is None:
        raise ConfigError("expected at least one URL to crawl, or --attach and the id of a crawl")
    if attach is not None and (urls or not is_plain):
        raise ConfigError(
            "--attach follows a crawl as it is: leave out URLs and all options but --appid,"
            " --spider, --output and --json"
        )
