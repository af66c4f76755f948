"""``crawlstream proxies``: the pools of proxies, read and changed in ZooKeeper, and checked."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import orjson
import typer
from rich.table import Table

from crawlstream.boot.settings import load_settings
from crawlstream.cli.common.client import cluster_redis
from crawlstream.cli.common.console import say, stdout_console
from crawlstream.cli.common.option_sets import has_options_of
from crawlstream.cli.common.proxy_check import check_all
from crawlstream.egress.edit import DEFAULT, PoolEditor
from crawlstream.egress.shown import pool_shown, pool_table
from crawlstream.egress.url import read_line
from crawlstream.errors import BadTable, ConfigError, ZooKeeperUnavailable
from crawlstream.frontier.frontier import Frontier
from crawlstream.model.egress.pools import DIRECT, Pool, PoolTable

proxies = typer.Typer(
    help="Show and change the pools of proxies that pages are fetched through.",
    no_args_is_help=True,
    add_completion=False,
)


class Dns(StrEnum):
    """Who looks up the names of sites."""

    CHECK = "check"
    LOCAL = "local"


class Plain(StrEnum):
    """How http:// goes through an HTTP proxy."""

    TUNNEL = "tunnel"
    ABSOLUTE = "absolute"


class Per(StrEnum):
    """Who shares the proxies of a site."""

    SITE = "site"
    CRAWL = "crawl"


Name = Annotated[str, typer.Argument(metavar="POOL", help="Name of a pool.")]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Ids of proxies; default: the whole pool."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
FromFile = Annotated[
    str | None,
    typer.Option(
        "--file",
        metavar="FILE|-",
        help="File of proxies, one per line: a URL, or host:port:user:password; - for stdin.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a person says of a pool: the options of the command, by name."""

    weight: Annotated[
        float | None,
        typer.Option(min=0.01, max=1000, help="Share of the sites of the added proxies."),
    ] = None
    label: Annotated[
        list[str] | None, typer.Option(help="Label of the added proxies; repeatable.")
    ] = None
    sessions: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of sessions of each added proxy: {session} in its URL counts them."
        ),
    ] = None
    spread: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Proxies that one site is asked through at a time."),
    ] = None
    per: Annotated[
        Per | None,
        typer.Option(help="Whether the crawls of a site share its proxies, or each has its own."),
    ] = None
    rest: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds for which a proxy avoids a site that has refused it."),
    ] = None
    dns: Annotated[
        Dns | None,
        typer.Option(
            help=(
                "check: crawler and proxy both look up the site's name; local: the proxy is given"
                " the address that the crawler has checked."
            )
        ),
    ] = None
    plain: Annotated[
        Plain | None,
        typer.Option(
            help=(
                "How http:// URLs go through HTTP proxies: by CONNECT, or as whole URLs, for"
                " proxies that allow CONNECT to port 443 only."
            )
        ),
    ] = None
    fallback: Annotated[
        list[str] | None,
        typer.Option(
            metavar="POOL",
            help="Pool to use when no proxy is available; repeatable; direct: no proxy.",
        ),
    ] = None
    app: Annotated[
        list[str] | None,
        typer.Option(metavar="APPID", help="Application that may name the pool; repeatable."),
    ] = None

    def of_pool(self) -> dict[str, Any]:
        """What was given of the pool, by the names in ZooKeeper."""
        return _given(
            spread=self.spread,
            per=self.per and self.per.value,
            rest=self.rest,
            dns=self.dns and self.dns.value,
            plain=self.plain and self.plain.value,
            fallback=self.fallback,
            apps=self.app,
        )

    def of_proxies(self) -> dict[str, Any]:
        """What was given of the proxies that are added."""
        return _given(weight=self.weight, labels=self.label, sessions=self.sessions)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@proxies.command("list")
def list_pools(as_json: AsJson = False) -> None:
    """List the pools, and which domains use them."""
    _show_table(_run(_editor().read()), as_json=as_json)


@proxies.command("show")
def show(pool: Name, as_json: AsJson = False) -> None:
    """Show the policy and the proxies of a pool; passwords are hidden."""
    _show_pool(_run(_editor().read()), pool, as_json=as_json)


@proxies.command("set")
@has_options_of(Policy)
def set_pool(
    pool: Name,
    urls: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[URL]...",
            help=(
                "Proxies to add: http, https or socks5 URLs. Passwords in arguments are visible to"
                " other users of the machine: prefer --file, or ${NAME}, which crawlers replace"
                " from their environment."
            ),
        ),
    ] = None,
    *,
    file: FromFile = None,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Create a pool, change its policy, or add proxies; what is not given stays as it is.

    A proxy that the pool already has gets the new password.

    Example: crawlstream proxies set de --file proxies.txt --spread 2
    """
    policy = Policy(**given)
    found = [_url_of(line, f"URL {n}") for n, line in enumerate(urls or (), 1)]
    lines = [{"url": url, **policy.of_proxies()} for url in (*found, *_lines_of(file))]
    table = _run(_editor().set_pool(pool, lines, policy=policy.of_pool()))
    _show_pool(table, pool, as_json=as_json)


@proxies.command("use")
def use(
    domain: Annotated[
        str, typer.Argument(metavar="DOMAIN|default", help="A domain or host, or all others.")
    ],
    pool: Annotated[str, typer.Argument(metavar="POOL|direct", help="Pool to use.")],
    as_json: AsJson = False,
) -> None:
    """Use a pool for a domain and its subdomains, or for all domains without a pool.

    Example: crawlstream proxies use shop.example.com de
    """
    _show_table(_run(_editor().use(domain, pool)), as_json=as_json)


@proxies.command("remove")
def remove(pool: Name, ids: Ids = None, as_json: AsJson = False) -> None:
    """Remove a pool that nothing uses, or some of its proxies.

    Queued pages of crawls that name a removed pool wait: stop the crawl, or create the pool again.
    """
    if ids:
        _show_pool(_run(_editor().remove_proxies(pool, ids)), pool, as_json=as_json)
    else:
        _show_table(_run(_editor().remove_pool(pool)), as_json=as_json)


@proxies.command("disable")
def disable(pool: Name, ids: Ids = None, as_json: AsJson = False) -> None:
    """Disable a pool, or some of its proxies; pages of a disabled pool wait."""
    _show_pool(_run(_editor().disable(pool, ids or ())), pool, as_json=as_json)


@proxies.command("enable")
def enable(pool: Name, ids: Ids = None, as_json: AsJson = False) -> None:
    """Enable a pool, or some of its proxies."""
    table = _run(_editor().disable(pool, ids or (), disabled=False))
    _show_pool(table, pool, as_json=as_json)


@proxies.command("adopt")
def adopt(as_json: AsJson = False) -> None:
    """Accept the pools of a replaced ZooKeeper even though their version is older."""
    table = _run(_editor().read())
    asyncio.run(_copy(table))
    _show_table(table, as_json=as_json)


@proxies.command("check")
def check(
    pool: Annotated[
        str | None, typer.Argument(metavar="[POOL]", help="Pool to check; default: --file.")
    ] = None,
    *,
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Page to fetch through each proxy.")
    ],
    file: FromFile = None,
    expect: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text that the page must contain.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for each proxy.")] = 15.0,
    at_once: Annotated[int, typer.Option(min=1, max=500, help="Proxies checked at once.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Fetch a page through each proxy as a crawler does, and show the result.

    The page should be one of your own: it is requested once per proxy. Exit code 0: a proxy
    passed; 1: none did.

    Example: crawlstream proxies check de --url https://www.example.com/
    """
    verdicts = check_all(
        _checked(pool, file), url, expect=expect, timeout_s=timeout, at_once=at_once
    )
    if as_json:
        say(orjson.dumps(verdicts).decode())
    else:
        shown = Table("id", "proxy", "result", "ms", box=None)
        for verdict in verdicts:
            shown.add_row(verdict["id"], verdict["url"], verdict["result"], str(verdict["ms"]))
        stdout_console().print(shown)
    raise typer.Exit(0 if any(verdict["ok"] for verdict in verdicts) else 1)


def _checked(pool: str | None, file: str | None) -> Pool:
    if (pool is None) == (file is None):
        raise ConfigError("expected a pool or --file, and not both")
    if pool is not None:
        return _pool_of(_run(_editor().read()), pool)
    return Pool(name="file", proxies=tuple(map(read_line, _lines_of(file))))


def _url_of(line: str, where: str) -> str:
    """The URL that a line means, whole; ConfigError shows nothing of it."""
    try:
        read_line(line)
    except BadTable as error:
        raise ConfigError(f"{where} {error}") from None
    if "://" in line:
        return line.strip()
    host, port, *rest = line.strip().split(":", 3)
    if len(rest) == 2:
        # Not what stands for a variable or a session.
        user, password = (quote(part, safe="${}") for part in rest)
        return f"http://{user}:{password}@{host}:{port}"
    return f"http://{line.strip()}"


def _quoted(text: str) -> str:
    """Percent-encoded, but for what stands for a variable or a session."""
    from urllib.parse import quote

    return quote(text, safe="${}")


def _lines_of(file: str | None) -> list[str]:
    if file is None:
        return []
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    numbered = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1)]
    return [_url_of(line, f"{file}: line {n}") for n, line in numbered if line and line[0] != "#"]


def _editor() -> PoolEditor:
    settings = load_settings()
    return PoolEditor(settings.zookeeper_hosts, settings.proxies_path)


async def _copy(table: PoolTable) -> None:
    settings = load_settings()
    async with cluster_redis(settings) as redis:
        await Frontier(redis, settings.keys).pools.copy(table, adopt=True)


def _run(edit: Coroutine[Any, Any, PoolTable]) -> PoolTable:
    try:
        return asyncio.run(edit)
    except ZooKeeperUnavailable as error:
        raise ZooKeeperUnavailable(
            f"{error}: start a cluster with `./crawlstream up -d`, or set ZOOKEEPER_HOSTS"
        ) from error


def _pool_of(table: PoolTable, name: str) -> Pool:
    pool = table.pools.get(name)
    if pool is None:
        known = ", ".join(sorted(table.pools)) or "none"
        raise ConfigError(f"there is no pool {name!r}; the pools are: {known}")
    return pool


def _show_table(table: PoolTable, *, as_json: bool) -> None:
    if as_json:
        say(orjson.dumps(pool_table(table)).decode())
        return
    shown = Table("pool", "proxies", "used by", "", box=None)
    for name in (DIRECT, *sorted(table.pools)):
        pool = table.pools.get(name)
        users = [DEFAULT] if table.default == name else []
        users += [domain for domain, used in sorted(table.domains.items()) if used == name]
        users += [f"group {group}" for group, used in sorted(table.groups.items()) if used == name]
        state = "disabled" if pool and pool.disabled else ""
        shown.add_row(name, str(len(pool.proxies)) if pool else "", _some(users), state)
    stdout_console().print(shown)


def _some(users: Sequence[str]) -> str:
    more = f" and {len(users) - 5} more" if len(users) > 5 else ""
    return ", ".join(users[:5]) + more


def _show_pool(table: PoolTable, name: str, *, as_json: bool) -> None:
    pool = _pool_of(table, name)
    told = pool_shown(pool)
    if as_json:
        say(orjson.dumps({"pool": name, **told}).decode())
        return
    for field, value in told.items():
        if field != "proxies":
            plain = ", ".join(value) if isinstance(value, tuple) else value
            say(f"{field:<9} {plain}")
    shown = Table("id", "proxy", "weight", "labels", "", box=None)
    for proxy in told["proxies"]:
        state = "disabled" if proxy["disabled"] else ""
        labels, weight = ", ".join(proxy["labels"]), f"{proxy['weight']:g}"
        shown.add_row(proxy["id"], proxy["url"], weight, labels, state)
    stdout_console().print(shown)
