"""Options of a pool and of its proxies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer


class Dns(StrEnum):
    """Process that looks up the names of sites."""

    CHECK = "check"
    LOCAL = "local"


class PlainHttp(StrEnum):
    """How http:// goes through an HTTP proxy."""

    TUNNEL = "tunnel"
    ABSOLUTE = "absolute"


class Per(StrEnum):
    """Scope in which the proxies of a site are shared."""

    SITE = "site"
    CRAWL = "crawl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Properties of a pool, under the names of the command's options."""

    weight: Annotated[
        float | None,
        typer.Option(min=0.01, max=1000, help="Share of the sites of the added proxies."),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL", help="Label of the added proxies; repeatable."),
    ] = None
    sessions: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of sessions of each added proxy: {session} in its URL counts them."
        ),
    ] = None
    spread: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Proxies used for one site at a time."),
    ] = None
    per: Annotated[
        Per | None,
        typer.Option(help="Whether the crawls of a site share its proxies, or each has its own."),
    ] = None
    uses: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Requests to a site after which a proxy avoids it for --rest seconds; 0: never.",
        ),
    ] = None
    rest: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds for which a proxy avoids a site that has refused it."),
    ] = None
    concurrency: Annotated[
        int | None,
        typer.Option(min=0, help="Requests through one proxy at a time; 0: any number."),
    ] = None
    budget_requests: Annotated[
        int | None,
        typer.Option(min=0, help="Requests through the pool a day (UTC); 0: any number."),
    ] = None
    budget_gigabytes: Annotated[
        float | None, typer.Option(min=0, help="Traffic of the pool a day (UTC); 0: any amount.")
    ] = None
    price_per_gb: Annotated[
        float | None, typer.Option(min=0, help="Price of a gigabyte, for `crawlstream cost`.")
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
        PlainHttp | None,
        typer.Option(
            help=(
                "How http:// URLs go through HTTP proxies: by CONNECT, or as whole URLs, for"
                " proxies that allow CONNECT to port 443 only."
            )
        ),
    ] = None
    tls: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROFILE",
            help=(
                "TLS profile to ask sites with; repeatable: the next one is used after a failed"
                " handshake."
            ),
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
        """Return the given options of the pool, under the names in ZooKeeper."""
        return _given(
            spread=self.spread,
            per=self.per and self.per.value,
            rest=self.rest,
            uses=self.uses,
            concurrency=self.concurrency,
            budget=_given(requests=self.budget_requests, gigabytes=self.budget_gigabytes) or None,
            price=_given(per_gb=self.price_per_gb) or None,
            dns=self.dns and self.dns.value,
            plain=self.plain and self.plain.value,
            tls=self.tls,
            fallback=self.fallback,
            apps=self.app,
        )

    def of_proxies(self) -> dict[str, Any]:
        """Return the given options of the proxies that are added."""
        return _given(weight=self.weight, labels=self.label, sessions=self.sessions)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
