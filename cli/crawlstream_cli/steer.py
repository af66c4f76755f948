"""``crawlstream stop``, ``pause``, ``resume``, ``reprioritize``: steer a crawl that is running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from crawlstream.boot.settings import load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import CrawlstreamError
from crawlstream.wire import jsontext
from crawlstream_cli.common.cluster_requests import refusal, request_reply
from crawlstream_cli.common.console import print_line
from crawlstream_cli.common.times import seconds_of, until
from crawlstream_cli.common.which import AppId, Spider, which_crawl
from crawlstream_cli.common.words import counted

ForHowLong = Annotated[
    int | None,
    typer.Option(
        "--for",
        parser=seconds_of,
        metavar="TIME",
        help="Resume by itself after this time: 90s, 45min, 1h, 2d. Default: only by hand.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def stop(
    crawlid: Annotated[str, typer.Argument(metavar="CRAWL", help="Crawl to stop.")],
    appid: AppId = None,
    spider: Spider = None,
    as_json: AsJson = False,
) -> None:
    """Stop a crawl: queued pages are dropped, pages in flight are finished.

    Feeding the same crawl later starts a new run.

    Example: crawlstream stop 7f3a9c0b12de
    """
    reply = _ask("stop", crawlid, appid=appid, spider=spider)
    purged = reply["total_purged"]
    were = "was" if purged == 1 else "were"
    _show(reply, f"Stopped {crawlid}: {counted(purged, 'queued page')} {were} dropped.", as_json)


def pause(
    crawlid: Annotated[str, typer.Argument(metavar="CRAWL", help="Crawl to pause.")],
    for_s: ForHowLong = None,
    appid: AppId = None,
    spider: Spider = None,
    as_json: AsJson = False,
) -> None:
    """Pause a crawl: pages in flight are finished, no further pages are fetched.

    A paused crawl keeps its queued pages, accepts new seeds, and does not finish until it is
    resumed, by hand or at the end of --for.

    Example: crawlstream pause 7f3a9c0b12de --for 1h
    """
    aim = {} if for_s is None else {"until": int(time.time()) + for_s}
    reply = _ask("pause", crawlid, appid=appid, spider=spider, **aim)
    ends = f" {until(reply['until'])}" if "until" in reply else ""
    sooner = "resume it sooner" if ends else "resume it"
    sentence = f"Paused {crawlid}{ends}; {sooner} with `{COMMAND} resume {crawlid}`."
    _show(reply, sentence, as_json)


def resume(
    crawlid: Annotated[str, typer.Argument(metavar="CRAWL", help="Crawl to resume.")],
    appid: AppId = None,
    spider: Spider = None,
    as_json: AsJson = False,
) -> None:
    """Resume a paused crawl; queued pages keep their order.

    Example: crawlstream resume 7f3a9c0b12de
    """
    reply = _ask("resume", crawlid, appid=appid, spider=spider)
    _show(reply, f"Resumed {crawlid}.", as_json)


def reprioritize(
    crawlid: Annotated[str, typer.Argument(metavar="CRAWL", help="Crawl to reprioritize.")],
    priority: Annotated[
        int,
        typer.Argument(
            min=1,
            max=100,
            help=(
                "New priority of its highest-priority seed; other pages keep their distance to it."
            ),
        ),
    ],
    appid: AppId = None,
    spider: Spider = None,
    as_json: AsJson = False,
) -> None:
    """Change a crawl's priority, for queued and future pages.

    Priority differences within the crawl do not change.

    Example: crawlstream reprioritize 7f3a9c0b12de 90
    """
    reply = _ask("reprioritize", crawlid, appid=appid, spider=spider, priority=priority)
    _show(reply, f"{crawlid} now has priority {priority}.", as_json)


def _ask(
    action: str, crawlid: str, *, appid: str | None, spider: str | None, **fields: object
) -> Mapping[str, Any]:
    """The reply to an action; CrawlstreamError says why it was refused."""
    settings = load_settings()
    crawl = asyncio.run(which_crawl(settings, crawlid, appid=appid, spider=spider))
    reply = asyncio.run(request_reply(settings, {"action": action, **asdict(crawl), **fields}))
    if why := refusal(reply):
        raise CrawlstreamError(f"{crawlid}: {why}; `{COMMAND} crawls` lists the known ones")
    return reply


def _show(reply: Mapping[str, Any], sentence: str, as_json: bool) -> None:
    print_line(jsontext.dumps(reply).decode() if as_json else sentence)
