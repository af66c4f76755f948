"""``crawlstream stats``: what the cluster has done, as any client is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer
from rich.markup import escape
from rich.table import Table

from crawlstream.boot.settings import load_settings
from crawlstream.cli.common.ask import APPID, ask, refusal
from crawlstream.cli.common.console import say, stdout_console
from crawlstream.errors import CrawlstreamError

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

_MOST_DOMAINS = 20
"""Lines of a table; ``--json`` has all."""


class Kind(StrEnum):
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
    kind: Annotated[Kind, typer.Argument(help="Which statistics to show.")] = Kind.ALL,
    appid: Annotated[str, typer.Option(help="Application id (appid) of the request.")] = APPID,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show counters: requests, responses by status, queued pages by domain.

    The command sends a request through Kafka, as any client would.

    Example: crawlstream stats spider
    """
    reply = asyncio.run(ask(load_settings(), {"stats": kind.value, "appid": appid}))
    if why := refusal(reply):
        raise CrawlstreamError(why)
    if as_json:
        say(orjson.dumps(reply).decode())
        return
    console = stdout_console()
    for table in tables(kind, reply):
        console.print(table)
        console.print()


def tables(kind: Kind, reply: Mapping[str, Any]) -> Iterator[Table]:
    """A stats reply, part by part."""
    if kind is Kind.ALL:
        for one in (Kind.KAFKA_MONITOR, Kind.REDIS_MONITOR, Kind.REST, Kind.CRAWLER):
            yield from tables(one, reply[one.value])
    elif kind in (Kind.KAFKA_MONITOR, Kind.REDIS_MONITOR, Kind.REST):
        yield _monitor(kind, reply)
    else:
        for key, part in _PARTS.items():
            if key in reply:
                yield part(reply[key])


def _counts(title: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    table.add_column("")
    for words in WINDOWS.values():
        table.add_column(words, justify="right")
    return table


def _row(table: Table, name: str, counts: Mapping[str, int]) -> None:
    table.add_row(escape(name), *(str(counts.get(window, 0)) for window in WINDOWS))


def _monitor(kind: Kind, section: Mapping[str, Any]) -> Table:
    processes = sum(map(len, section.get("nodes", {}).values()))
    table = _counts(f"{kind.value}: {processes} running")
    for name in ("total", "fail"):
        _row(table, name, section.get(name, {}))
    for name, counts in section.get("plugins", {}).items():
        _row(table, f"  {name}", counts)
    return table


def _by_status(title: str) -> Callable[[Mapping[str, Any]], Table]:
    def part(section: Mapping[str, Any]) -> Table:
        table = _counts(title)
        for name, statuses in section.items():
            if not isinstance(statuses, Mapping):
                continue
            running = statuses.get("count")
            table.add_row(escape(name if running is None else f"{name}: {running} running"))
            for status, counts in statuses.items():
                if isinstance(counts, Mapping):
                    _row(table, f"  {status}", counts)
        return table

    return part


def _queues(section: Mapping[str, Any]) -> Table:
    table = Table(title="queued pages", title_justify="left", box=None, header_style="bold")
    table.add_column("spider, domain")
    table.add_column("pages", justify="right")
    for name, queue in section.items():
        if not isinstance(queue, Mapping):
            continue
        spider = escape(name.removeprefix("queue_"))
        table.add_row(f"{spider}: {queue['num_domains']} domains", str(queue["spider_backlog"]))
        largest = sorted(queue["domains"], key=lambda domain: -domain["backlog"])
        for domain in largest[:_MOST_DOMAINS]:
            table.add_row(f"  {escape(domain['domain'])}", str(domain["backlog"]))
    return table


def _domains(section: Mapping[str, Any]) -> Table:
    table = Table(title="busiest domains", title_justify="left", box=None, header_style="bold")
    table.add_column("domain")
    for name in ("responses in 1 h", "below 400", "latency"):
        table.add_column(name, justify="right")
    for domain, figures in list(section.items())[:_MOST_DOMAINS]:
        table.add_row(
            escape(domain),
            str(figures["responses"]),
            f"{figures['success_rate']:.1%}",
            "" if figures["latency_ms"] is None else f"{figures['latency_ms']} ms",
        )
    return table


_PARTS: Mapping[str, Callable[[Mapping[str, Any]], Table]] = {
    "spiders": _by_status("responses by spider"),
    "machines": _by_status("responses by machine"),
    "domains": _domains,
    "queues": _queues,
    "queue": _queues,
}
