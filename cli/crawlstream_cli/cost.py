"""``crawlstream cost``: what a million pages cost, by your prices and the crawl rate."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import orjson
import typer
from rich.markup import escape
from rich.table import Table

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import ConfigError, CrawlstreamError
from crawlstream.model.egress.pools import PoolTable
from crawlstream.stats.proxies import bytes_over
from crawlstream_cli.common.client import cluster_frontier
from crawlstream_cli.common.cluster_requests import APPID, refusal, request_reply
from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.common.prices import EXAMPLE, Prices, read_prices
from rest_service.runs.charges import read_charges

HOURS_A_MONTH = 730
_MONITORS = ("kafka-monitor", "redis-monitor", "rest")


class Over(StrEnum):
    """The time that is looked at."""

    QUARTER = "15m"
    HOUR = "1h"
    DAY = "1d"
    WEEK = "7d"


_SECONDS = {Over.QUARTER: 900, Over.HOUR: 3600, Over.DAY: 86_400, Over.WEEK: 604_800}


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs of a million pages."""

    currency: str
    pages_per_hour: float
    per_hour: Mapping[str, float]
    """Costs of running processes, by their kind."""
    per_million_pages: Mapping[str, float]
    """Costs per million pages: of the processes, and of the pages themselves."""
    total: float
    other_charges: Mapping[str, float] = field(default_factory=dict)
    """Charges of sites per million pages in other currencies, which ``total`` does not have."""


def cost_of(
    prices: Prices,
    running: Mapping[str, int],
    pages_per_hour: float,
    charges: Mapping[str, float] = MappingProxyType({}),
) -> Cost:
    """Return the costs of a million pages at this pace; ``running`` counts processes by kind.

    ``charges`` are those of sites for a million pages, by currency.
    """
    per_hour: dict[str, float] = {
        kind: price * running.get(kind, 0)
        for kind, price in prices.hourly.items()
        if running.get(kind)
    }
    per_hour |= {name: price / HOURS_A_MONTH for name, price in prices.monthly.items()}
    hours = 1e6 / pages_per_hour
    per_million = {name: price * hours for name, price in per_hour.items()}
    per_million |= prices.per_million_pages
    if own := charges.get(prices.currency):
        per_million["charged by sites"] = own
    others = {name: sum_ for name, sum_ in charges.items() if sum_ and name != prices.currency}
    total = sum(per_million.values())
    return Cost(prices.currency, pages_per_hour, per_hour, per_million, total, others)


def counted(reply: Mapping[str, Any], over_s: int) -> tuple[Mapping[str, int], float]:
    """Return processes by kind, and pages per hour (status 2xx), from a reply to ``stats: all``."""
    running = {kind: sum(map(len, reply[kind].get("nodes", {}).values())) for kind in _MONITORS}
    pages = 0
    for statuses in reply["crawler"]["spiders"].values():
        if isinstance(statuses, Mapping):
            running["crawler"] = running.get("crawler", 0) + int(statuses.get("count", 0))
            pages += sum(
                counts.get(str(over_s), 0)
                for status, counts in statuses.items()
                if status.startswith("2")
            )
    return running, pages * 3600 / over_s


def cost(
    prices: Annotated[
        str | None,
        typer.Argument(metavar="PRICES", help="YAML file with the prices; - for stdin."),
    ] = None,
    *,
    example: Annotated[
        bool, typer.Option("--example", help="Print a complete table of prices to start from.")
    ] = False,
    over: Annotated[
        Over, typer.Option(help="Period over which the crawl rate is measured.")
    ] = Over.HOUR,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Estimate the cost of a million pages from the running processes and the crawl rate.

    The table has prices `hourly` per process by kind (crawler, kafka-monitor, redis-monitor,
    rest), `monthly` for fixed costs such as Redis and Kafka, and `per_million_pages` for traffic
    and the like; traffic through pools of proxies is added by their own price (`proxies set
    --price-per-gb`), and what sites have charged for the crawls that ended in the period.
    `cost --example > prices.yaml` writes a complete one to fill in.

    Example: crawlstream cost prices.yaml --over 1d
    """
    if example:
        print_line(EXAMPLE, end="")
        return
    table = _table_of(prices)
    settings = load_settings()
    reply = asyncio.run(request_reply(settings, {"stats": "all", "appid": APPID}))
    if why := refusal(reply):
        raise CrawlstreamError(why)
    running, pages_per_hour = counted(reply, _SECONDS[over])
    if not pages_per_hour:
        raise CrawlstreamError(
            f"no page was crawled in the last {over.value}, so the crawl rate is unknown: choose"
            " a longer period with --over"
        )
    proxies = asyncio.run(_proxies(_SECONDS[over], pages_per_hour))
    prices_in_all = replace(table, per_million_pages={**table.per_million_pages, **proxies})
    charges = asyncio.run(_charges(settings, _SECONDS[over]))
    found = cost_of(prices_in_all, running, pages_per_hour, charges)
    if as_json:
        print_line(orjson.dumps(asdict(found)).decode())
        return
    stdout_console().print(_shown(found))
    for currency, sum_ in found.other_charges.items():
        print_line(f"Sites also charged {currency} {sum_:,.2f} per million pages.")


async def _proxies(over_s: int, pages_per_hour: float) -> Mapping[str, float]:
    """Return the traffic costs of each pool with a price, for a million pages of all."""
    settings = load_settings()
    async with cluster_frontier(settings) as frontier:
        table = await frontier.pools.table() or PoolTable()
        scripts = frontier.root.scripts
        sizes = await bytes_over(scripts.redis, scripts.keys, over_s)
    pages = pages_per_hour * over_s / 3600
    return {
        f"proxies: {name}": sizes.get(name, 0) / 1e9 * pool.price_per_gb / pages * 1e6
        for name, pool in table.pools.items()
        if pool.price_per_gb
    }


async def _charges(settings: Settings, over_s: int) -> Mapping[str, float]:
    """Return what sites charged for a million pages of the runs that ended, by currency."""
    since_ms = int((time.time() - over_s) * 1000)
    found = await read_charges(kafka_of(settings), settings.topics.events, since_ms)
    return found.per_million_pages()


def _table_of(source: str | None) -> Prices:
    """The prices in a file, or on standard input; ConfigError says what is wrong with them."""
    if source is None:
        raise ConfigError(
            f"no table of prices was given: `{COMMAND} cost --example > prices.yaml` writes one"
        )
    try:
        if source == "-":
            return read_prices(sys.stdin.read(), "standard input")
        return read_prices(Path(source).read_text(encoding="utf-8"), source)
    except UnicodeError as error:
        raise ConfigError(f"{source}: the file is not UTF-8 text") from error
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror}") from error


def _shown(found: Cost) -> Table:
    title = f"{found.currency}, at {found.pages_per_hour:,.0f} pages per hour"
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    table.add_column("")
    table.add_column("an hour", justify="right")
    table.add_column("per million pages", justify="right")
    for name, price in found.per_million_pages.items():
        hourly = found.per_hour.get(name)
        table.add_row(escape(name), "" if hourly is None else f"{hourly:,.3f}", f"{price:,.2f}")
    table.add_row("total", f"{sum(found.per_hour.values()):,.3f}", f"{found.total:,.2f}")
    return table
