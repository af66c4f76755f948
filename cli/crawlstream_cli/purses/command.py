"""``crawlstream purse``: money that crawlers may pay for pages, its limits, and what was spent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, TypeVar

import orjson
import typer

from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError, InvalidUrl
from crawlstream.model.url import domain_key, host_name, origin_of, seed_url
from crawlstream.model.words.price import Price, price_in
from crawlstream_cli.common.client import cluster_frontier
from crawlstream_cli.common.console import print_line
from crawlstream_frontier.egress.purse import OTHER_ORIGINS, Purse, PurseDetails, PurseState
from crawlstream_frontier.egress.purse_report import (
    amount_of,
    latest,
    purse_json,
    report_json,
    spent_by_date,
    today,
)
from crawlstream_frontier.egress.purses import OK, Purses

purse = typer.Typer(
    help="Show and change the purses that pay for pages, and report what was spent.",
    no_args_is_help=True,
    add_completion=False,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the purse.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_MOST_ORIGINS = 20
"""Lines; ``--json`` has 1000."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,40}")
_CURRENCY = re.compile(r"[A-Z]{3}")
_WHY = {
    "other_currency": "it has spent another currency: remove it first, or use another name",
    "too_many": "there are 100 purses already: remove one first",
}

T = TypeVar("T")


@purse.command("set")
def set_purse(
    name: Name,
    currency: Annotated[str, typer.Option(metavar="CODE", help="Three letters, such as USD.")],
    day: Annotated[str, typer.Option(metavar="AMOUNT", help="Budget of a day, in UTC.")],
    *,
    total: Annotated[
        str | None, typer.Option(metavar="AMOUNT", help="Budget of all days; default: no limit.")
    ] = None,
    max_price: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Highest price of a page; default: that of a day."),
    ] = None,
    apps: Annotated[
        str, typer.Option(metavar="A,B", help="Applications that may use it; default: all.")
    ] = "",
    domains: Annotated[
        str, typer.Option(metavar="D,E", help="Registrable domains to pay; default: all.")
    ] = "",
) -> None:
    """Create a purse, or replace the limits of one; what it has spent still counts.

    Example: crawlstream purse set news --currency USD --day 5.00 --max-price 0.02
    """
    wanted = Purse(
        name=_named(name),
        currency=currency if _CURRENCY.fullmatch(currency) else _no_currency(currency),
        day=_amount("--day", currency, day),
        total=None if total is None else _amount("--total", currency, total),
        max_price=None if max_price is None else _amount("--max-price", currency, max_price),
        apps=_listed(apps),
        domains=[_domain(each) for each in _listed(domains)],
    )
    why = _with_purses(lambda purses: purses.put(wanted))
    if why != OK:
        raise ConfigError(f"the purse {name} was not changed: {_WHY[why]}")
    print_line(f"{name} pays up to {Price(currency, wanted.day)} a day")


@purse.command("list")
def list_purses(as_json: AsJson = False) -> None:
    """List all purses, and what they have spent of their budgets."""
    found = _with_purses(lambda purses: purses.all())
    if as_json:
        print_line(orjson.dumps([purse_json(state) for state in found]).decode())
        return
    if not found:
        print_line("There is no purse, so nothing is paid; `crawlstream purse set` makes one.")
    for state in found:
        print_line(f"{state.purse.name}: {_spent(state)}{_remarks(state)}")


@purse.command("report")
def report(
    name: Name,
    days: Annotated[int, typer.Option(min=1, max=100, help="Number of days, until today.")] = 7,
    as_json: AsJson = False,
) -> None:
    """Report what a purse has spent: by day, by site, with and without receipts.

    Example: crawlstream purse report news --days 30
    """
    state, details = _with_purses(partial(_looked_up, name, days))
    if as_json:
        print_line(orjson.dumps(report_json(state, details, days)).decode())
        return
    for date, spent in spent_by_date(state, days).items():
        print_line(f"{date}     {spent}")
    rows = {"charged": state.charged, "unsettled": state.unsettled}
    rows["overcharged"] = state.overcharged
    for what, sum_ in rows.items():
        print_line(f"{what:<13}  {amount_of(state, sum_)}")
    print_line(f"{'pages':<13}  {state.pages} charged, {state.open} under way")
    print_line(f"{'all days':<13}  {_spent(state)}{_remarks(state)}")
    for line in _by_origin(state, details):
        print_line(line)
    for origin in details.distrusted:
        print_line(f"{'not paid':<13}  {origin}")


def _by_origin(state: PurseState, details: PurseDetails) -> Iterator[str]:
    """Yield lines for the largest sums, and one for all others."""
    charges = dict(details.charges)
    others = charges.pop(OTHER_ORIGINS, 0) + sum([*charges.values()][_MOST_ORIGINS:])
    for origin, sum_ in [*charges.items()][:_MOST_ORIGINS]:
        yield f"{'charged by':<13}  {origin}: {amount_of(state, sum_)}"
    if others:
        yield f"{'charged by':<13}  others: {amount_of(state, others)}"


async def _looked_up(name: str, days: int, purses: Purses) -> tuple[PurseState, PurseDetails]:
    state = await purses.state(name)
    if state is None:
        raise _no_purse(name)
    return state, await purses.details(name, latest(days))


@purse.command("adopt")
def adopt(name: Name) -> None:
    """Let a purse pay again after a restart of Redis, or after a site has charged too much.

    A restart may have lost what was reserved in the last seconds before it, an older copy of the
    data more. Compare `report` with the bills of the sites, and lower the budgets if they differ.
    """
    if not _with_purses(lambda purses: purses.adopt(name)):
        raise _no_purse(name)
    print_line(f"{name} pays")


@purse.command("forgive")
def forgive(
    name: Name, origin: Annotated[str, typer.Argument(metavar="URL", help="Site to pay again.")]
) -> None:
    """Let a purse pay a site again that has charged more than its price.

    Example: crawlstream purse forgive news https://shop.example.com
    """
    wanted = _origin(origin)
    why = _with_purses(lambda purses: purses.forgive(name, wanted))
    if why == "no_purse":
        raise _no_purse(name)
    if why != OK:
        raise ConfigError(f"{name} has no surplus charge of {wanted}; see `purse report {name}`")
    print_line(f"{name} pays {wanted}")


@purse.command("remove")
def remove(name: Name) -> None:
    """Remove a purse and its sums; pages of its crawls that have a price are no longer paid."""
    if not _with_purses(lambda purses: purses.remove(name)):
        raise _no_purse(name)
    print_line(f"{name} is removed")


def _with_purses(do: Callable[[Purses], Awaitable[T]]) -> T:
    async def run() -> T:
        async with cluster_frontier(load_settings()) as frontiers:
            return await do(frontiers.root.purses)

    return asyncio.run(run())


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name[:50]!r} is not a name for a purse: use 1 to 40 of A-Z a-z 0-9 . _ -"
        )
    return name


def _no_currency(text: str) -> str:
    raise ConfigError(
        f"--currency {text[:20]!r} is not a currency: use three capitals, such as USD"
    )


def _amount(option: str, currency: str, text: str) -> int:
    price = price_in(f"{currency} {text}")
    if price is None:
        raise ConfigError(
            f"{option} {text[:30]!r} is not an amount: use digits, and at most six decimals,"
            " such as 5.00"
        )
    return price.millionths


def _domain(text: str) -> str:
    try:
        return domain_key(host_name(text))
    except InvalidUrl as error:
        raise ConfigError(f"--domains {text[:50]!r} is not a domain: {error}") from error


def _origin(text: str) -> str:
    try:
        return origin_of(seed_url(text))
    except InvalidUrl as error:
        raise ConfigError(f"{text[:50]!r} is not a URL: {error}") from error


def _listed(text: str) -> Sequence[str]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _no_purse(name: str) -> ConfigError:
    return ConfigError(f"there is no purse {name[:50]!r}; `crawlstream purse list` shows all")


def _spent(state: PurseState) -> str:
    spent_today = state.days.get(today(), 0)
    of_all = f" of {amount_of(state, state.purse.total)}" if state.purse.total is not None else ""
    return (
        f"{amount_of(state, spent_today)} of {amount_of(state, state.purse.day)} today,"
        f" {amount_of(state, state.total)}{of_all} in all"
    )


def _remarks(state: PurseState) -> str:
    if state.is_closed:
        return "; closed: Redis was restarted, see `crawlstream purse adopt`"
    if not state.distrusted:
        return ""
    return (
        f"; {state.distrusted} sites are not paid: they charged more than their price,"
        " see `crawlstream purse forgive`"
    )
