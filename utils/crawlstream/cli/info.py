"""``crawlstream info``: what is being crawled, and how far it is."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import orjson
import typer
from redis.exceptions import RedisError
from rich.console import Console
from rich.table import Table

from crawlstream.boot.clients import redis_client
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.cli.ask import APPID, ask, refusal
from crawlstream.errors import CrawlstreamError, RedisUnavailable
from crawlstream.frontier.frontier import Frontier
from crawlstream.keys import FrontierKeys
from crawlstream.model.state import CrawlState


def info(
    crawlid: Annotated[
        str | None, typer.Argument(help="The crawl to tell about; without it, all of them.")
    ] = None,
    appid: Annotated[str, typer.Option(help="Whose crawl it is.")] = APPID,
    spider: Annotated[str, typer.Option("--spider", "-s", help="Which spider crawls it.")] = "link",
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Tell what is being crawled, or how far one crawl is.

    One crawl is asked about through Kafka, as any client would; all crawls are read from the
    frontier.

    Example: crawlstream info 7f3a9c0b12de --json
    """
    settings = load_settings()
    if crawlid is None:
        _show_all(asyncio.run(_all(settings)), as_json=as_json)
        return
    request = {"action": "info", "appid": appid, "spiderid": spider, "crawlid": crawlid}
    reply = asyncio.run(ask(settings, request))
    if why := refusal(reply):
        raise CrawlstreamError(why)
    if as_json:
        sys.stdout.write(orjson.dumps(reply).decode() + "\n")
    else:
        _show_one(reply)


async def _all(settings: Settings) -> Sequence[CrawlState]:
    redis = redis_client(settings)
    keys = FrontierKeys(settings.namespace)
    try:
        return await Frontier(redis, keys).crawls()
    except (RedisError, RedisUnavailable) as error:
        raise RedisUnavailable(
            f"Redis does not answer at {settings.REDIS_HOST}:{settings.REDIS_PORT}:"
            " start a cluster with `./crawlstream up -d`, or set REDIS_HOST"
        ) from error
    finally:
        await redis.aclose()


def _show_all(crawls: Sequence[CrawlState], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(orjson.dumps([asdict(crawl) for crawl in crawls]).decode() + "\n")
        return
    table = Table(box=None, header_style="bold")
    for name in ("crawl", "app", "spider", "run", "state"):
        table.add_column(name, overflow="fold")
    for name in ("pending", "held", "done", "failed"):
        table.add_column(name, justify="right")
    for state in crawls:
        table.add_row(
            state.crawl.crawlid,
            state.crawl.appid,
            state.crawl.spiderid,
            str(state.run),
            state.state,
            *map(str, (state.pending, state.held, state.done, state.failed)),
        )
    Console().print(table if crawls else "Nothing is being crawled.")


def _show_one(reply: Mapping[str, Any]) -> None:
    table = Table(box=None, show_header=False)
    for name, value in reply.items():
        if name not in ("domains", "uuid"):
            table.add_row(name, _text(value))
    for domain, backlog in reply.get("domains", {}).items():
        table.add_row(f"waiting at {domain}", _text(backlog))
    Console().print(table)


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
    return str(value)
