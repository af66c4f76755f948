"""``crawlstream stop``: end a crawl now."""

from __future__ import annotations

import asyncio
from typing import Annotated

import orjson
import typer

from crawlstream.boot.settings import load_settings
from crawlstream.cli.ask import APPID, ask, refusal
from crawlstream.cli.console import say
from crawlstream.errors import CrawlstreamError


def stop(
    crawlid: Annotated[str, typer.Argument(help="Crawl to stop.")],
    appid: Annotated[str, typer.Option(help="Application id (appid) of the crawl.")] = APPID,
    spider: Annotated[str, typer.Option("--spider", "-s", help="Spider of the crawl.")] = "link",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Stop a crawl: queued pages are dropped, pages in flight are finished.

    Feeding the same crawl later starts a new run.

    Example: crawlstream stop 7f3a9c0b12de
    """
    request = {"action": "stop", "appid": appid, "spiderid": spider, "crawlid": crawlid}
    reply = asyncio.run(ask(load_settings(), request))
    if why := refusal(reply):
        raise CrawlstreamError(why)
    if as_json:
        say(orjson.dumps(reply).decode())
    else:
        say(f"Stopped {crawlid}: {reply['total_purged']} queued pages were dropped.")
