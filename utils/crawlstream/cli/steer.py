"""``crawlstream pause``, ``resume``, ``reprioritize``: a hand on a crawl under way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
import typer

from crawlstream.boot.settings import load_settings
from crawlstream.cli.ask import APPID, ask, refusal
from crawlstream.cli.console import say
from crawlstream.errors import CrawlstreamError

AppId = Annotated[str, typer.Option("--appid", help="Application id (appid) of the crawl.")]
Spider = Annotated[str, typer.Option("--spider", "-s", help="Spider of the crawl.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def pause(
    crawlid: Annotated[str, typer.Argument(help="Crawl to pause.")],
    appid: AppId = APPID,
    spider: Spider = "link",
    as_json: AsJson = False,
) -> None:
    """Pause a crawl: pages in flight are finished, no further pages are fetched.

    A paused crawl keeps its queued pages, accepts new seeds, and does not finish until it is
    resumed.

    Example: crawlstream pause 7f3a9c0b12de
    """
    reply = _ask("pause", crawlid, appid=appid, spiderid=spider)
    _show(reply, f"Paused {crawlid}; resume it with `crawlstream resume {crawlid}`.", as_json)


def resume(
    crawlid: Annotated[str, typer.Argument(help="Crawl to resume.")],
    appid: AppId = APPID,
    spider: Spider = "link",
    as_json: AsJson = False,
) -> None:
    """Resume a paused crawl; queued pages keep their order.

    Example: crawlstream resume 7f3a9c0b12de
    """
    reply = _ask("resume", crawlid, appid=appid, spiderid=spider)
    _show(reply, f"Resumed {crawlid}.", as_json)


def reprioritize(
    crawlid: Annotated[str, typer.Argument(help="Crawl to reprioritize.")],
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
    appid: AppId = APPID,
    spider: Spider = "link",
    as_json: AsJson = False,
) -> None:
    """Change a crawl's priority, for queued and future pages.

    Priority differences within the crawl do not change.

    Example: crawlstream reprioritize 7f3a9c0b12de 90
    """
    reply = _ask("reprioritize", crawlid, appid=appid, spiderid=spider, priority=priority)
    _show(reply, f"{crawlid} now has priority {priority}.", as_json)


def _ask(action: str, crawlid: str, **fields: object) -> Mapping[str, Any]:
    """The reply to an action; CrawlstreamError says why it was refused."""
    reply = asyncio.run(ask(load_settings(), {"action": action, "crawlid": crawlid, **fields}))
    if why := refusal(reply):
        raise CrawlstreamError(f"{crawlid}: {why}")
    return reply


def _show(reply: Mapping[str, Any], sentence: str, as_json: bool) -> None:
    say(orjson.dumps(reply).decode() if as_json else sentence)
