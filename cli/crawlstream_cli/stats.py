"""``crawlstream stats``: counters of the cluster, as any client gets them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from crawlstream.boot.settings import load_settings
from crawlstream.errors import CrawlstreamError
from crawlstream.wire import jsontext
from crawlstream_cli.common.cluster_requests import APPID, refusal, request_reply
from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.common.words import counted

WINDOWS = {
    "900": "15 min",
    "3600": "1 h",
    "21600": "6 h",
    "43200": "12 h",
    "86400": "1 d",
    "604800": "7 d",
    "lifetime": "ever",
}
"""As they are named in replies, and for people."""
_EVER = "lifetime"

_REQUESTS = {
    "ScraperHandler": "crawl",
    "ActionHandler": "action",
    "StatsHandler": "stats",
    "ZookeeperHandler": "zookeeper",
    "InfoMonitor": "info",
    "StopMonitor": "stop",
    "ExpireMonitor": "expire",
    "StatsMonitor": "stats",
    "ZookeeperMonitor": "zookeeper",
}
"""Requests by the class names that replies have for them, as those of Scrapy Cluster; a plugin's
requests have the name of its class."""
_ROWS = {"total": "requests", "fail": "failed"}
_STATUSES = {"504": "504 or no response"}
"""A download without a response is counted as Scrapy Cluster does."""

_MOST_DOMAINS = 20
"""Lines of a table; ``--json`` has all."""


_Part = Callable[[Mapping[str, Any], Sequence[str]], Table]
"""Makes a table of a part of a reply, over some windows."""


class StatsKind(StrEnum):
    """Whose counters are asked for."""

    ALL = "all"
    KAFKA_MONITOR = "kafka-monitor"
    REDIS_MONITOR = "redis-monitor"
    CRAWLER = "crawler"
    SPIDER = "spider"
    MACHINE = "machine"
    QUEUE = "queue"
    REST = "rest"


def stats(
    kind: Annotated[
        StatsKind, typer.Argument(metavar="KIND", help="Which statistics to show.")
    ] = StatsKind.ALL,
    appid: Annotated[str, typer.Option(help="Application id (appid) of the request.")] = APPID,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count requests, responses by status, and queued pages by domain.

    Columns are periods up to now; those longer than anything was counted are left out. --json has
    all, under the names of Scrapy Cluster.

    Example: crawlstream stats spider
    """
    reply = asyncio.run(request_reply(load_settings(), {"stats": kind.value, "appid": appid}))
    if why := refusal(reply):
        raise CrawlstreamError(why)
    if as_json:
        print_line(jsontext.dumps(reply).decode())
        return
    console = stdout_console()
    for table in tables(kind, reply):
        console.print(table)
        console.print()


def tables(kind: StatsKind, reply: Mapping[str, Any]) -> Iterator[Table]:
    """A stats reply, part by part, over the windows that all parts together need."""
    yield from _tables(kind, reply, _recorded(reply))


def _tables(kind: StatsKind, reply: Mapping[str, Any], windows: Sequence[str]) -> Iterator[Table]:
    if kind is StatsKind.ALL:
        for one in (
            StatsKind.KAFKA_MONITOR,
            StatsKind.REDIS_MONITOR,
            StatsKind.REST,
            StatsKind.CRAWLER,
        ):
            yield from _tables(one, reply[one.value], windows)
    elif kind in (StatsKind.KAFKA_MONITOR, StatsKind.REDIS_MONITOR, StatsKind.REST):
        yield _monitor(kind, reply, windows)
    else:
        for key, part in _PARTS.items():
            if key in reply:
                yield part(reply[key], windows)


def _recorded(reply: Mapping[str, Any]) -> Sequence[str]:
    """The windows beyond which something was counted, and that of all time.

    One that reaches back further than the counts do would repeat the last column.
    """
    all_counts = [*_counts_in(reply)]
    return [
        window
        for window in WINDOWS
        if window == _EVER or any(counts.get(window, 0) != counts[_EVER] for counts in all_counts)
    ]


def _counts_in(section: Mapping[str, Any]) -> Iterator[Mapping[str, int]]:
    """The counts by window, wherever they are."""
    if _EVER in section:
        yield section
        return
    for below in section.values():
        if isinstance(below, Mapping):
            yield from _counts_in(below)


def _counts(title: str, windows: Sequence[str]) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        box=None,
        header_style="bold",
        min_width=len(title),  # A title is wrapped by the width of its table.
    )
    table.add_column("")
    for window in windows:
        table.add_column(WINDOWS[window], justify="right")
    return table


def _row(table: Table, name: str, counts: Mapping[str, int], windows: Sequence[str]) -> None:
    table.add_row(escape(name), *(f"{counts.get(window, 0):,}" for window in windows))


def _monitor(kind: StatsKind, section: Mapping[str, Any], windows: Sequence[str]) -> Table:
    processes = sum(map(len, section.get("nodes", {}).values()))
    table = _counts(f"{kind.value}: {processes} running", windows)
    for name, words in _ROWS.items():
        _row(table, words, section.get(name, {}), windows)
    for name, counts in section.get("plugins", {}).items():
        _row(table, f"  {_REQUESTS.get(name, name)}", counts, windows)
    return table


def _by_status(title: str) -> _Part:
    def part(section: Mapping[str, Any], windows: Sequence[str]) -> Table:
        table = _counts(title, windows)
        for name, statuses in section.items():
            if not isinstance(statuses, Mapping):
                continue
            running = statuses.get("count")
            table.add_row(escape(name if running is None else f"{name}: {running} running"))
            for status, counts in statuses.items():
                if isinstance(counts, Mapping):
                    _row(table, f"  {_STATUSES.get(status, status)}", counts, windows)
        return table

    return part


def _queues(section: Mapping[str, Any], _: Sequence[str]) -> Table:
    table = Table(title="queued pages", title_justify="left", box=None, header_style="bold")
    table.add_column("spider, domain")
    table.add_column("pages", justify="right")
    for name, queue in section.items():
        if not isinstance(queue, Mapping):
            continue
        spider = escape(name.removeprefix("queue_"))
        domains = counted(queue["num_domains"], "domain")
        table.add_row(f"{spider}: {domains}", f"{queue['spider_backlog']:,}")
        largest = sorted(queue["domains"], key=lambda domain: -domain["backlog"])
        for domain in largest[:_MOST_DOMAINS]:
            table.add_row(f"  {escape(domain['domain'])}", f"{domain['backlog']:,}")
    return table


def _domains(section: Mapping[str, Any], _: Sequence[str]) -> Table:
    table = Table(title="busiest domains", title_justify="left", box=None, header_style="bold")
    table.add_column("domain")
    for name in ("responses in 1 h", "below 400", "latency"):
        table.add_column(name, justify="right")
    for domain, figures in list(section.items())[:_MOST_DOMAINS]:
        table.add_row(
            escape(domain),
            f"{figures['responses']:,}",
            f"{figures['success_rate']:.1%}",
            "" if figures["latency_ms"] is None else f"{figures['latency_ms']} ms",
        )
    return table


_PARTS: Mapping[str, _Part] = {
    "spiders": _by_status("responses by spider"),
    "machines": _by_status("responses by machine"),
    "domains": _domains,
    "queues": _queues,
    "queue": _queues,
}
