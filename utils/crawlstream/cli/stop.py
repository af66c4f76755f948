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
    crawlid: Annotated[str, typer.Argument(help="The crawl to end.")],
    appid: Annotated[str, typer.Option(help="Whose crawl it is.")] = APPID,
    spider: Annotated[str, typer.Option("--spider", "-s", help="Which spider crawls it.")] = "link",
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Stop a crawl: what waits is dropped, what is being fetched comes to its end.

    A later feed of the same crawl begins a new run.

    Example: crawlstream stop 7f3a9c0b12de
    """
    request = {"action": "stop", "appid": appid, "spiderid": spider, "crawlid": crawlid}
    reply = asyncio.run(ask(load_settings(), request))
    if why := refusal(reply):
        raise CrawlstreamError(why)
    if as_json:
        say(orjson.dumps(reply).decode())
    else:
        say(f"Stopped {crawlid}: {reply['total_purged']} pages were waiting.")
