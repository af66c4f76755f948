"""A crawl as a schedule: the same seeds and options, again and again."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any

import typer

from crawlstream.errors import ConfigError, InvalidUrl
from crawlstream.model.recurring.schedule import AT
from crawlstream.model.scope import Scope
from crawlstream.model.url import host_of, seed_url
from crawlstream_cli.crawl.request_options import RequestOptions

NEW_ONLY_S = 30 * 86_400
"""Seconds after the last firing for which the pages of a crawl stay known."""
_MOST = 40
_MOST_BEFORE_AT = _MOST - len("-20261122T120000Z")
_EVERY = re.compile(r"(\d+)([mhd])")
_STEPS = {
    "m": (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30),
    "h": (1, 2, 3, 4, 6, 8, 12),
    "d": (1, 7),
}
"""Steps of each unit that leave equal gaps in cron."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurring(RequestOptions):
    """Options of a crawl that is repeated, under the names of the command's options."""

    cron: Annotated[
        str | None,
        typer.Option(help="When it fires: minute, hour, day of the month, month, day of the week."),
    ] = None
    zone: Annotated[str, typer.Option(help="Time zone of --cron, such as Europe/Berlin.")] = "UTC"
    new_only: Annotated[
        bool,
        typer.Option(
            "--new-only",
            help="Fetch the seeds at each firing, and each page that is found behind them once.",
        ),
    ] = False
    spider: Annotated[str, typer.Option("--spider", "-s", help="Spider to use.")] = "link"


def definition_of(name: str, urls: Sequence[str], wishes: Recurring) -> Mapping[str, Any]:
    """Return a schedule that crawls as ``crawl`` does; ConfigError.

    Each firing is a crawl of its own; with ``new_only`` all are runs of one crawl, in which a page
    behind the seeds is fetched once.
    """
    once = {"crawlid": name, "remember": NEW_ONLY_S}
    crawlid = once if wishes.new_only else {"crawlid": _per_run(name)}
    return {
        "cron": wishes.cron,
        "zone": wishes.zone,
        # The fields of the crawl say how far it goes, of all seeds together.
        "scope": Scope.ANY,
        "crawl": {**crawlid, "spiderid": wishes.spider, **wishes.fields(urls)},
        "seeds": list(urls),
    }


def name_of(urls: Sequence[str]) -> str:
    """Return a name for a schedule, the host of its first seed; ConfigError."""
    try:
        host = host_of(seed_url(urls[0]))
    except InvalidUrl as error:
        raise ConfigError(f"{urls[0]}: {error}") from error
    return re.sub(r"[^A-Za-z0-9._-]", "-", host).strip("-")[:_MOST]


def cron_of(every: str, now: float | None = None) -> str:
    """Return a cron expression, in UTC, for ``1d``, ``12h`` or an expression; ConfigError."""
    found = _EVERY.fullmatch(every.strip())
    if found is None:
        if len(every.split()) == 1:
            raise ConfigError(
                f"--every {every!r}: expected 30m, 12h, 1d or 7d, or a cron expression, such as"
                " '30 2 * * *'"
            )
        return every
    number, unit = int(found[1]), found[2]
    if number not in (allowed := _STEPS[unit]):
        raise ConfigError(
            f"--every {every}: cron has no such interval: use one of"
            f" {', '.join(f'{n}{unit}' for n in allowed)}, or a cron expression"
        )
    at = time.gmtime(now)
    minute = f"{at.tm_min % number if unit == 'm' else at.tm_min}"
    if unit == "m":
        return f"{minute}-59/{number} * * * *"
    hours = f"{at.tm_hour % number}-23/{number}" if unit == "h" else str(at.tm_hour)
    weekday = (at.tm_wday + 1) % 7 if (number, unit) == (7, "d") else "*"
    return f"{minute} {hours} * * {weekday}"


def _per_run(name: str) -> str:
    """Return a crawlid for each firing; a long name is cut, and told from others by a hash."""
    if len(name) > _MOST_BEFORE_AT:
        mark = blake2b(name.encode(), digest_size=4).hexdigest()
        name = f"{name[: _MOST_BEFORE_AT - len(mark) - 1]}-{mark}"
    return f"{name}-{AT}"
