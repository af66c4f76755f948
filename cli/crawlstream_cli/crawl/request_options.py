"""From what a person typed to the crawl requests that are fed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from crawlstream.errors import ConfigError, InvalidUrl
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.scope import (
    DirectiveUse,
    Redirects,
    Scope,
    SitemapUse,
    scope_fields,
)
from crawlstream.model.url import host_of, seed_url
from crawlstream.model.web.directives import BodyBan
from crawlstream.model.web.guard_mode import GuardMode
from crawlstream.model.web.purposes import Purpose
from crawlstream_cli.common.times import seconds_of
from crawlstream_cli.crawl.browser_options import Actions, wish_of
from crawlstream_cli.crawl.budget_texts import bytes_of
from crawlstream_cli.crawl.option_types import (
    Archive,
    DomainBytes,
    DomainFailedShare,
    HostBudget,
    Render,
    RenderAuto,
    Score,
    Screenshot,
    Tls,
)

_Texts = list[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """Options of a crawl besides its seeds, under the names of the command's options."""

    depth: Annotated[
        int, typer.Option("--depth", "-d", min=0, help="Maximum link depth below a seed.")
    ] = 0
    max_pages: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of pages of the crawl.")
    ] = None
    max_bytes: Annotated[
        int | None,
        typer.Option(
            parser=bytes_of,
            metavar="BYTES",
            help="Maximum bytes of pages: 500M, 10G. Then the crawl ends, as expired.",
        ),
    ] = None
    max_failed_share: Annotated[
        float | None,
        typer.Option(
            min=0.05,
            max=1,
            metavar="SHARE",
            help="End the crawl at this share of failed pages, from 100 pages on: 0.5 is half.",
        ),
    ] = None
    domain_max_bytes: DomainBytes = None
    domain_max_failed_share: DomainFailedShare = None
    max_time: Annotated[
        int | None,
        typer.Option(
            parser=seconds_of,
            metavar="TIME",
            help="Maximum duration: 90s, 45min, 2h, 1d. Then the crawl ends, as expired.",
        ),
    ] = None
    scope: Annotated[
        Scope,
        typer.Option(
            help=(
                "Links to follow. host: to the hosts of the seeds and their subdomains; domain: to"
                " their registered domains; prefix: to URLs that begin as a seed does up to its"
                " last slash; any: all."
            )
        ),
    ] = Scope.HOST
    allow_domain: Annotated[
        _Texts,
        typer.Option(
            metavar="DOMAIN",
            help="Domain to follow links to, in addition to the scope; repeatable.",
        ),
    ] = None
    allow_regex: Annotated[
        _Texts,
        typer.Option(
            metavar="REGEX",
            help="Follow only links whose URL contains a match; repeatable: one must match.",
        ),
    ] = None
    deny_regex: Annotated[
        _Texts,
        typer.Option(
            metavar="REGEX", help="Do not follow links whose URL contains a match; repeatable."
        ),
    ] = None
    prefer: Annotated[
        _Texts,
        typer.Option(
            metavar="'REGEX=+200'",
            help=(
                "Change the priority of links whose URL contains a match (RE2) by a multiple of"
                " 10, from -1000 to +1000; REGEX=drop does not follow them. Repeatable: the first"
                " that matches decides. A level of depth is worth 10."
            ),
        ),
    ] = None
    score: Score = None
    host_budget: HostBudget = None
    redirects: Annotated[
        Redirects | None,
        typer.Option(
            help=(
                "Redirects to follow that lead out of the scope. seeds (default): those of seeds;"
                " scope: none; any: all."
            )
        ),
    ] = None
    directives: Annotated[
        DirectiveUse | None,
        typer.Option(
            help=(
                "Links that their page does not vouch for (nofollow): obey leaves them out, record"
                " follows them. Default: CRAWLSTREAM_DIRECTIVES."
            )
        ),
    ] = None
    drop: Annotated[
        list[BodyBan] | None,
        typer.Option(
            help=(
                "Leave out the bodies of pages with this directive, or of pages that their site"
                " reserves for the purpose of the crawl; repeatable. Those of CRAWLSTREAM_DROP are"
                " left out in any case."
            )
        ),
    ] = None
    purpose: Annotated[
        Purpose | None,
        typer.Option(
            help=(
                "Use that the crawl is for: results say whether their site reserves the page for"
                " it. Default: CRAWLSTREAM_PURPOSE."
            )
        ),
    ] = None
    guard: Annotated[
        GuardMode | None,
        typer.Option(
            help=(
                "Waste guard. watch: results name the text signature of their page, which is equal"
                " for equal texts, and its canonical URL. on: links that bring nothing new are also"
                " fetched last, or left out. Default: CRAWLSTREAM_GUARD."
            )
        ),
    ] = None
    keep_parameter: Annotated[
        _Texts,
        typer.Option(
            metavar="NAME",
            help=(
                "Parameter that links keep, whatever the waste guard has learned; NAME* is all that"
                " begin so. Repeatable."
            ),
        ),
    ] = None
    drop_parameter: Annotated[
        _Texts,
        typer.Option(
            metavar="NAME",
            help=(
                "Parameter that links lose before they are followed, such as 'utm_*'; repeatable."
                " Those of CRAWLSTREAM_DROP_PARAMETERS are dropped in any case, unless kept."
            ),
        ),
    ] = None
    sitemaps: Annotated[
        SitemapUse | None,
        typer.Option(
            help=(
                "Find pages by sitemaps, feeds and llms.txt of the site: also, or only, without"
                " following links. Needs --depth of at least 1."
            )
        ),
    ] = None
    header: Annotated[
        _Texts,
        typer.Option(
            metavar="'NAME: VALUE'",
            help="HTTP header, sent to the domain of the seed only; repeatable.",
        ),
    ] = None
    attr: Annotated[
        _Texts,
        typer.Option(
            metavar="KEY=VALUE", help="Data that every result of the crawl contains; repeatable."
        ),
    ] = None
    priority: Annotated[
        int | None,
        typer.Option(min=1, max=100, help="Pages of higher priority are fetched first."),
    ] = None

    proxy: Annotated[
        str | None,
        typer.Option(metavar="POOL", help="Pool of proxies to fetch the pages through, or direct."),
    ] = None

    tls: Tls = None

    purse: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Purse that pays for pages with a price; default: none."),
    ] = None

    max_price: Annotated[
        str | None,
        typer.Option(metavar="PRICE", help="Highest price of a page, such as 'USD 0.01'."),
    ] = None

    render: Render = False
    render_auto: RenderAuto = False
    screenshot_of: Screenshot = None
    actions: Actions = None
    archive: Archive = False

    requisites: Annotated[
        bool | None,
        typer.Option(
            help="Request images and styles of pages for archives, too. [default: for -o x.wacz]",
            show_default=False,
        ),
    ] = None

    def fields(self, seeds: Iterable[str]) -> dict[str, Any]:
        """Return the fields that all requests share; ConfigError if options are contradictory."""
        _check(self)
        wished = {
            "max_pages": self.max_pages,
            "max_seconds": self.max_time,
            "max_bytes": self.max_bytes,
            "max_failed_share": self.max_failed_share,
            "domain_max_bytes": self.domain_max_bytes,
            "domain_max_failed_share": self.domain_max_failed_share,
            "priority": self.priority,
            "proxy": self.proxy,
            "tls": self.tls,
            "purse": self.purse,
            "max_price": self.max_price,
            "render": _wish(self),
            "archive": self.archive or self.requisites,
            "requisites": self.requisites,
            "allow_regex": self.allow_regex,
            "deny_regex": self.deny_regex,
            "priorities": [_preference(text) for text in self.prefer or ()],
            "score": self.score,
            "host_budget": _host_budget(self.host_budget),
            "redirects": self.redirects,
            "directives": self.directives,
            "drop": self.drop,
            "purpose": self.purpose,
            "guard": self.guard,
            "sitemaps": self.sitemaps,
            "parameters": _parameters(self.keep_parameter, self.drop_parameter),
            "headers": _pairs("--header", ":", self.header or ()),
            "attrs": _pairs("--attr", "=", self.attr or ()),
            **scope_fields(self.scope, seeds, self.allow_domain or ()),
        }
        return {"maxdepth": self.depth, **{name: value for name, value in wished.items() if value}}


ARCHIVES = (".warc.gz", ".wacz")
"""Names of files that hold responses as they were sent, and requisites."""


def is_archive(output: Path | None) -> bool:
    """Return whether a file of results is an archive."""
    return output is not None and output.name.lower().endswith(ARCHIVES)


def for_output(options: RequestOptions, output: Path | None) -> RequestOptions:
    """Return the options of a crawl with what its file of results needs."""
    if output is None or not is_archive(output):
        return options
    wanted = options.requisites
    if wanted is None and output.name.lower().endswith(".wacz"):
        wanted = True
    return replace(options, archive=True, requisites=wanted)


def _wish(options: RequestOptions) -> Any:
    part, actions = options.screenshot_of, options.actions
    wish = wish_of(render=options.render, screenshot=part, actions=actions)
    if options.render_auto and wish:
        raise ConfigError(
            "--render-auto excludes --render, --screenshot-of and --actions, which need a browser"
            " for every page: leave out one of them"
        )
    return "auto" if options.render_auto else wish


def _check(options: RequestOptions) -> None:
    """ConfigError if options are contradictory."""
    if options.scope is Scope.PREFIX and options.allow_regex:
        raise ConfigError(
            "--scope prefix and --allow-regex exclude each other: write the prefix into the"
            r" expression, such as ^https://example\.com/docs/.*\.html$"
        )
    if options.sitemaps and not options.depth:
        raise ConfigError(
            "--sitemaps needs --depth of at least 1: pages of sitemaps are below the seed"
        )


def _host_budget(text: str | None) -> list[int] | None:
    """Return both numbers of a host budget; ConfigError for another text."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,6}),(\d{1,6})", text.replace(" ", ""))
    if not found:
        raise ConfigError(f"--host-budget {text}: must be two numbers up to 999999, such as 10,10")
    return [int(found[1]), int(found[2])]


def hosts_of(requests: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the distinct hosts of the seeds; invalid URLs have none."""
    hosts = []
    for request in requests:
        with suppress(InvalidUrl):
            hosts.append(host_of(seed_url(request["url"])))
    return list(dict.fromkeys(hosts))


def _pairs(option: str, mark: str, texts: Iterable[str]) -> Mapping[str, str]:
    """The names and values of a repeated option; ConfigError for text without the mark."""
    pairs = {}
    for text in texts:
        name, found, value = text.partition(mark)
        if not (found and name.strip()):
            example = "'Accept-Language: en'" if mark == ":" else "'team=search'"
            raise ConfigError(
                f"{option} {text!r}: expected a name, {mark!r} and a value, such as {example}"
            )
        pairs[name.strip()] = value.strip()
    return pairs


def _parameters(keep: _Texts, drop: _Texts) -> Mapping[str, list[str]]:
    return {name: told for name, told in (("keep", keep), ("drop", drop)) if told}


def _preference(text: str) -> Mapping[str, Any]:
    """Return the priority rule of ``--prefer``; ConfigError for other text."""
    expression, _, change = text.rpartition("=")
    if expression and change == "drop":
        return {"match": expression, "drop": True}
    if expression and re.fullmatch(r"[+-]?\d{1,4}", change, re.ASCII):
        return {"match": expression, "add": int(change)}
    raise ConfigError(
        f"--prefer {text!r}: expected an expression, '=' and a change or drop, such as"
        " '/products/=+200' or '/login=drop'"
    )


def seed(crawl: CrawlKey, url: str, number: int) -> dict[str, Any]:
    """A crawl request for one URL, with a uuid of its own."""
    return {
        "url": url,
        "appid": crawl.appid,
        "crawlid": crawl.crawlid,
        "spiderid": crawl.spiderid,
        "uuid": f"{crawl.crawlid}-{number}",
    }
