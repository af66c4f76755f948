"""``crawlstream info``: what is being crawled, and how far it is."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
import typer
from rich.markup import escape
from rich.table import Table

from crawlstream.boot.settings import load_settings
from crawlstream.cli.absent import absence
from crawlstream.cli.ask import APPID, ask, refusal
from crawlstream.cli.console import say, stdout_console
from crawlstream.cli.crawls import read_crawls, show_crawls
from crawlstream.errors import CrawlstreamError


def info(
    crawlid: Annotated[
        str | None, typer.Argument(help="Crawl to show; default: all crawls.")
    ] = None,
    appid: Annotated[str, typer.Option(help="Application id (appid) of the crawl.")] = APPID,
    spider: Annotated[str, typer.Option("--spider", "-s", help="Spider of the crawl.")] = "link",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show all crawls, or the progress of one crawl.

    For one crawl the command sends a request through Kafka, as any client would. The list of all
    crawls is read from the frontier.

    Example: crawlstream info 7f3a9c0b12de --json
    """
    settings = load_settings()
    if crawlid is None:
        show_crawls(asyncio.run(read_crawls(settings)), as_json=as_json)
        return
    request = {"action": "info", "appid": appid, "spiderid": spider, "crawlid": crawlid}
    reply = asyncio.run(ask(settings, request))
    if why := refusal(reply):
        raise CrawlstreamError(why)
    if as_json:
        say(orjson.dumps(reply).decode())
    else:
        _show_one(reply)
        is_waiting = reply.get("state") == "running" and reply.get("pending")
        if is_waiting and (missing := asyncio.run(absence(settings, spider))):
            sys.stderr.write(f"{missing}\n")


def _show_one(reply: Mapping[str, Any]) -> None:
    table = Table(box=None, show_header=False)
    for name, value in reply.items():
        if name not in ("domains", "uuid"):
            table.add_row(name, _text(value))
    for domain, backlog in reply.get("domains", {}).items():
        table.add_row(f"queued at {escape(domain)}", _text(backlog))
    stdout_console().print(table)


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return escape(", ".join(f"{name} {count}" for name, count in value.items()) or "none")
    return escape(str(value))
