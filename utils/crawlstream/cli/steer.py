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

AppId = Annotated[str, typer.Option("--appid", help="Whose crawl it is.")]
Spider = Annotated[str, typer.Option("--spider", "-s", help="Which spider crawls it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]


def pause(
    crawlid: Annotated[str, typer.Argument(help="The crawl to hold back.")],
    appid: AppId = APPID,
    spider: Spider = "link",
    as_json: AsJson = False,
) -> None:
    """Hold a crawl back: pages under way come to their end, nothing more is fetched.

    It keeps what waits, takes in what is fed, and does not finish until it is resumed.

    Example: crawlstream pause 7f3a9c0b12de
    """
    reply = _ask("pause", crawlid, appid=appid, spiderid=spider)
    _show(reply, f"Paused {crawlid}; `crawlstream resume {crawlid}` lets it go on.", as_json)


def resume(
    crawlid: Annotated[str, typer.Argument(help="The crawl that was paused.")],
    appid: AppId = APPID,
    spider: Spider = "link",
    as_json: AsJson = False,
) -> None:
    """Let a paused crawl go on, in its old order.

    Example: crawlstream resume 7f3a9c0b12de
    """
    reply = _ask("resume", crawlid, appid=appid, spiderid=spider)
    _show(reply, f"Resumed {crawlid}.", as_json)


def reprioritize(
    crawlid: Annotated[str, typer.Argument(help="The crawl to move.")],
    priority: Annotated[
        int, typer.Argument(min=1, max=100, help="Where its best seed stands from now on.")
    ],
    appid: AppId = APPID,
    spider: Spider = "link",
    as_json: AsJson = False,
) -> None:
    """Move a crawl before or behind others: all that waits, and all that comes.

    Distances within the crawl stay as they are.

    Example: crawlstream reprioritize 7f3a9c0b12de 90
    """
    reply = _ask("reprioritize", crawlid, appid=appid, spiderid=spider, priority=priority)
    _show(reply, f"{crawlid} stands at priority {priority} now.", as_json)


def _ask(action: str, crawlid: str, **fields: object) -> Mapping[str, Any]:
    """The reply to an action; CrawlstreamError says why it was refused."""
    reply = asyncio.run(ask(load_settings(), {"action": action, "crawlid": crawlid, **fields}))
    if why := refusal(reply):
        raise CrawlstreamError(f"{crawlid}: {why}")
    return reply


def _show(reply: Mapping[str, Any], sentence: str, as_json: bool) -> None:
    say(orjson.dumps(reply).decode() if as_json else sentence)
