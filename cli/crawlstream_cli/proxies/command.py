"""``crawlstream proxies``: the pools of proxies, read and changed in ZooKeeper, and checked."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import orjson
import typer
from rich.progress import track
from rich.table import Table

from crawlstream.boot.settings import load_settings
from crawlstream.called import COMMAND
from crawlstream.egress.edit import PoolEditor
from crawlstream.egress.url import read_line
from crawlstream.errors import BadTable, ConfigError
from crawlstream.model.egress.pools import DIRECT, Pool, PoolTable
from crawlstream.model.url import fold_host
from crawlstream_cli.common.client import cluster_frontier
from crawlstream_cli.common.console import print_line, stderr_console, stdout_console
from crawlstream_cli.common.nodes import edit_node
from crawlstream_cli.common.option_sets import has_options_of
from crawlstream_cli.common.proxy_check import check_all
from crawlstream_cli.common.times import seconds_of
from crawlstream_cli.proxies.policy import Policy
from crawlstream_cli.proxies.tables import pool_of, show_pool, show_states, show_table
from crawlstream_frontier.egress.proxy_states import PoolState, pool_named, why
from crawlstream_frontier.proxy_reports import ALL_SITES, ProxyBan

proxies = typer.Typer(
    help="Show and change the pools of proxies that pages are fetched through.",
    no_args_is_help=True,
    add_completion=False,
)

Name = Annotated[str, typer.Argument(metavar="POOL", help="Name of a pool.")]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Ids of proxies; default: the whole pool."),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="Id of a proxy, as `stats` shows it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_INSIDE = "private and loopback addresses are not fetched: CRAWLSTREAM_ALLOW_NETWORKS allows some"
FromFile = Annotated[
    str | None,
    typer.Option(
        "--file",
        metavar="FILE|-",
        help="File of proxies, one per line: a URL, or host:port:user:password; - for stdin.",
    ),
]


@proxies.command("list")
def list_pools(as_json: AsJson = False) -> None:
    """List the pools, and which domains use them."""
    show_table(edit_node(_editor().read()), as_json=as_json)


@proxies.command("show")
def show(pool: Name, as_json: AsJson = False) -> None:
    """Show the policy and the proxies of a pool; passwords are hidden."""
    show_pool(edit_node(_editor().read()), pool, as_json=as_json)


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
    table = edit_node(_editor().set_pool(pool, lines, policy=policy.of_pool()))
    show_pool(table, pool, as_json=as_json)


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
    show_table(edit_node(_editor().use(domain, pool)), as_json=as_json)


@proxies.command("remove")
def remove(pool: Name, ids: Ids = None, as_json: AsJson = False) -> None:
    """Remove a pool that nothing uses, or some of its proxies.

    Queued pages of crawls that name a removed pool wait: stop the crawl, or create the pool again.
    """
    if ids:
        show_pool(edit_node(_editor().remove_proxies(pool, ids)), pool, as_json=as_json)
    else:
        show_table(edit_node(_editor().remove_pool(pool)), as_json=as_json)


@proxies.command("disable")
def disable(pool: Name, ids: Ids = None, as_json: AsJson = False) -> None:
    """Disable a pool, or some of its proxies; pages of a disabled pool wait."""
    show_pool(edit_node(_editor().disable(pool, ids or ())), pool, as_json=as_json)


@proxies.command("enable")
def enable(pool: Name, ids: Ids = None, as_json: AsJson = False) -> None:
    """Enable a pool, or some of its proxies."""
    table = edit_node(_editor().disable(pool, ids or (), disabled=False))
    show_pool(table, pool, as_json=as_json)


@proxies.command("ban")
def ban(
    proxy: Id,
    *,
    site: Annotated[
        str | None, typer.Option(metavar="DOMAIN", help="Only for this domain; needs --for.")
    ] = None,
    for_s: Annotated[
        int | None,
        typer.Option(
            "--for",
            metavar="TIME",
            parser=seconds_of,
            help="How long, such as 45min, 1h or 2d; default: until `unban`.",
        ),
    ] = None,
) -> None:
    """Ban a proxy: no page is fetched through it.

    Example: crawlstream proxies ban p-5f3a9c01d2 --site example.com --for 1h
    """
    pool = _pool_with(edit_node(_editor().read()), proxy)
    if for_s is None and site is not None:
        raise ConfigError("a ban for one site needs an end: --for 1h")
    if for_s is None:
        edit_node(_editor().disable(pool, [proxy]))
        print_line(f"{proxy} is banned until `{COMMAND} proxies unban {proxy}`")
        return
    banned = asyncio.run(_ban(proxy, site, for_s))
    where = f" for {banned}" if site else ""
    print_line(f"{proxy} is banned{where} for {for_s} s")


@proxies.command("unban")
def unban(
    proxy: Id,
    *,
    site: Annotated[
        str | None, typer.Option(metavar="DOMAIN", help="Only the ban for this domain.")
    ] = None,
) -> None:
    """End a ban, and let the proxy be used again.

    Example: crawlstream proxies unban p-5f3a9c01d2
    """
    pool = _pool_with(edit_node(_editor().read()), proxy)
    asyncio.run(_ban(proxy, site, 0))
    if site is None:
        edit_node(_editor().disable(pool, [proxy], disabled=False))
    print_line(f"{proxy} is not banned any more")


@proxies.command("stats")
def stats(
    pool: Annotated[
        str | None, typer.Argument(metavar="[POOL]", help="Name of a pool; default: all.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of each proxy: score, counts, mean latency, and sites that it avoids.

    The score is 0 to 100, by about the last twenty requests. States: ok; trial (was out, no answer
    yet); out (left alone for a while after failures); banned; disabled.
    """
    states = asyncio.run(_states())
    show_states(states if pool is None else [pool_named(states, pool)], as_json=as_json)


@proxies.command("why")
def why_not(
    site: Annotated[str, typer.Argument(metavar="DOMAIN", help="A domain or host.")],
    *,
    pool: Annotated[
        str | None,
        typer.Option(metavar="POOL", help="Pool to look at; default: that of the domain."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show through which proxies a domain is fetched, in order, and why others are not used.

    Example: crawlstream proxies why shop.example.com
    """
    host = fold_host(site)
    states, counted = asyncio.run(_states()), asyncio.run(_site_of(host))
    name = pool or edit_node(_editor().read()).pool_for(host)
    if name == DIRECT:
        print_line(orjson.dumps([]).decode() if as_json else f"{host} is fetched directly")
        return
    found = pool_named(states, name)
    rows = why(found, counted)
    if as_json:
        print_line(orjson.dumps(rows).decode())
        return
    print_line(f"pool {name}: the first {found.pool.spread} that are fit are used")
    shown = Table("", "id", "proxy", "not used because", box=None)
    for row in rows:
        shown.add_row(str(row["place"]), row["id"], row["url"], row["why"])
    stdout_console().print(shown)


@proxies.command("adopt")
def adopt(as_json: AsJson = False) -> None:
    """Accept the pools of a replaced ZooKeeper even though their version is older."""
    table = edit_node(_editor().read())
    asyncio.run(_copy(table))
    show_table(table, as_json=as_json)


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
    add: Annotated[
        str | None,
        typer.Option(metavar="POOL", help="Pool to add those of --file to that pass."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a page through each proxy as a crawler does, and show the result.

    The page should be one of your own: it is requested once per proxy. Exit code 0: a proxy
    passed; 1: none did.

    Example: crawlstream proxies check de --url https://www.example.com/
    """
    if add and not file:
        raise ConfigError("--add needs --file: the proxies of a pool are in it already")
    lines = _lines_of(file)
    checked = _checked(pool, lines)
    verdicts = _with_progress(
        checked, check_all(checked, url, expect=expect, timeout_s=timeout, at_once=at_once)
    )
    if add:
        passed = {verdict["id"] for verdict in verdicts if verdict["ok"]}
        kept = [{"url": line} for line in lines if read_line(line).id in passed]
        if kept:
            edit_node(_editor().set_pool(add, kept, policy={}))
    if as_json:
        print_line(orjson.dumps(verdicts).decode())
    else:
        shown = Table("id", "proxy", "result", "ms", box=None)
        for verdict in verdicts:
            shown.add_row(verdict["id"], verdict["url"], verdict["result"], str(verdict["ms"]))
        stdout_console().print(shown)
        if any(verdict["result"] == "address_refused" for verdict in verdicts):
            stderr_console().print(_INSIDE, soft_wrap=True)
    if add:
        stderr_console().print(f"{len(kept)} of {len(lines)} proxies were added to the pool {add}")
    raise typer.Exit(0 if any(verdict["ok"] for verdict in verdicts) else 1)


def _checked(pool: str | None, lines: Sequence[str]) -> Pool:
    if (pool is None) == (not lines):
        raise ConfigError("expected a pool or --file, and not both")
    if pool is not None:
        return pool_of(edit_node(_editor().read()), pool)
    return Pool(name="file", proxies=tuple(map(read_line, lines)))


def _with_progress(pool: Pool, verdicts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """All verdicts, in the order of the pool; how many there are is shown meanwhile."""
    console = stderr_console()
    places = {proxy.id: place for place, proxy in enumerate(pool.proxies)}
    found = track(
        verdicts,
        "checking",
        total=len(places),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    return sorted(found, key=lambda verdict: places[verdict["id"]])


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
    async with cluster_frontier(settings) as frontier:
        await frontier.pools.copy(table, adopt=True)


async def _ban(proxy: str, host: str | None, for_s: int) -> str:
    """Ban a proxy for the site of a host (None: all sites) and return that."""
    async with cluster_frontier(load_settings()) as frontier:
        site = ALL_SITES if host is None else await frontier.site_of(fold_host(host))
        await frontier.book.ban(ProxyBan(proxy, site, for_s * 1000))
    return site


async def _states() -> Sequence[PoolState]:
    """As the crawlers know them."""
    settings = load_settings()
    async with cluster_frontier(settings) as frontier:
        return await frontier.book.states(await frontier.pools.table() or PoolTable())


def _pool_with(table: PoolTable, proxy: str) -> str:
    name = table.pool_with(proxy)
    if name is None:
        raise ConfigError(f"no pool has a proxy {proxy!r}: `{COMMAND} proxies stats` lists them")
    return name


async def _site_of(host: str) -> str:
    async with cluster_frontier(load_settings()) as frontier:
        return await frontier.site_of(host)
