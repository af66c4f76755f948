"""``crawlstream mcp``: serve tools to a program that has started this command."""

from __future__ import annotations

import asyncio
import signal
from enum import StrEnum
from importlib import import_module
from typing import Annotated, Any

import typer

from crawlstream.boot.settings import Settings, load_settings
from crawlstream.errors import ConfigError, MissingExtra

_WEB = ("http://", "https://")


class Allowed(StrEnum):
    """Tools that a model gets."""

    READ = "read"
    SUBMIT = "submit"


def mcp(
    *,
    url: Annotated[
        str | None, typer.Option(help="REST service; default: the one of this machine.")
    ] = None,
    appid: Annotated[
        str, typer.Option(help="Application of the pages and crawls of the tools.")
    ] = "agents",
    allow: Annotated[
        Allowed, typer.Option(help="`submit` adds the tools that start and stop crawls.")
    ] = Allowed.READ,
) -> None:
    """Serve the tools of crawlstream to a language model, by the Model Context Protocol.

    The program of the model starts this command and talks to it on standard input and output. The
    tools call the REST service, with the key in CRAWLSTREAM_API_KEY if it needs one. They fetch
    pages, list the URLs of a site, and read crawls, results and limits; with --allow submit they
    also start and stop crawls.

    Needs the extra `mcp`: `crawlstream install mcp`.

    Example: crawlstream mcp --url https://crawl.example.com
    """
    settings = load_settings()
    try:
        module: Any = import_module("rest_service.agents.mcp_stdio")
    except ModuleNotFoundError as error:
        raise MissingExtra("mcp", error.name, "mcp") from error
    serving = module.serve_stdio(
        _address(url, settings),
        key=settings.api_key,
        appid=appid,
        may_change=allow is Allowed.SUBMIT,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        # It ends at once, although a thread waits for standard input: there is nothing to keep.
        signal.signal(number, signal.SIG_DFL)
    asyncio.run(serving)


def _address(url: str | None, settings: Settings) -> str:
    if url is None:
        host = settings.rest_host
        return f"http://{f'[{host}]' if ':' in host else host}:{settings.rest_port}"
    if not url.startswith(_WEB):
        raise ConfigError(f"--url: {url} does not begin with http:// or https://")
    return url
