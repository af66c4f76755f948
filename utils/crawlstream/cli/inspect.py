"""``crawlstream frontier inspect``: where a page is, what a domain does, how far a crawl is."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table

from crawlstream.boot.settings import load_settings
from crawlstream.cli.ask import APPID
from crawlstream.cli.client import cluster_redis
from crawlstream.cli.console import say, stdout_console
from crawlstream.errors import CrawlstreamError
from crawlstream.frontier.frontier import Frontier
from crawlstream.frontier.inspection import Inspector
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import DomainReport, PageReport, Sighting, Where
from crawlstream.model.state import CrawlState
from crawlstream.model.url import canonical, domain_key, seed_url
from crawlstream.throttle.parse import fold
from crawlstream.wire import views

MOST_CRAWLS = 200
"""Crawls that are asked about a page where none is named."""

frontier = typer.Typer(
    help="Inspect the frontier: queued and in-flight pages, domains, crawls.",
    no_args_is_help=True,
    add_completion=False,
)


@frontier.callback()
def _group() -> None:
    """Keep ``inspect`` a word of the command line although it is the only one."""


class Kind(StrEnum):
    """What is asked about."""

    URL = "url"
    DOMAIN = "domain"
    CRAWL = "crawl"


@frontier.command("inspect")
def inspect(
    what: Annotated[
        str, typer.Argument(metavar="URL|DOMAIN|CRAWL", help="URL, domain or crawl to look up.")
    ],
    *,
    kind: Annotated[
        Kind | None,
        typer.Option(
            "--as",
            help=(
                "Type of the argument. Default: with a slash a URL, with a dot a domain, else a"
                " crawl."
            ),
        ),
    ] = None,
    crawlid: Annotated[
        str | None, typer.Option(help="Only look for the URL in this crawl; default: all crawls.")
    ] = None,
    appid: Annotated[str, typer.Option(help="Application id (appid) of the crawl.")] = APPID,
    spider: Annotated[str, typer.Option("--spider", "-s", help="Spider of the crawl.")] = "link",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show where a page is, the state of a domain, or the progress of a crawl.

    The frontier stores queued and in-flight pages, and for finished pages only that they were seen.
    Outcomes of finished pages are on the result and event topics.

    Example: crawlstream frontier inspect https://example.com/page --crawlid 7f3a9c0b12de
    """
    asked = kind or kind_of(what)
    if asked is Kind.URL:
        crawl = None if crawlid is None else CrawlKey(spider, appid, crawlid)
        _show_pages(what, asyncio.run(_pages(canonical(seed_url(what)), crawl)), as_json=as_json)
    elif asked is Kind.DOMAIN:
        _show_domain(asyncio.run(_domain(fold(what))), as_json=as_json)
    else:
        _show_crawl(asyncio.run(_crawl(CrawlKey(spider, appid, what))), as_json=as_json)


def kind_of(what: str) -> Kind:
    """What a person most likely means."""
    if "/" in what:
        return Kind.URL
    return Kind.DOMAIN if "." in what or what == "localhost" else Kind.CRAWL


async def _pages(url: str, crawl: CrawlKey | None) -> Sequence[PageReport]:
    """What one crawl, or each that is remembered, knows of a page."""
    settings = load_settings()
    async with cluster_redis(settings) as redis:
        inspector = Inspector(redis, settings.keys)
        crawls = [crawl] if crawl else await inspector.crawls(MOST_CRAWLS)
        found = [await inspector.page(one, url) for one in crawls]
    if crawl and not found[0]:
        raise _unknown(crawl)
    if len(crawls) == MOST_CRAWLS:
        sys.stderr.write(f"Only {MOST_CRAWLS} crawls were searched: choose one with --crawlid.\n")
    return [one for one in found if one and (crawl or one.where is not Where.NEVER)]


async def _domain(host: str) -> DomainReport:
    """What is known of the site that a host is counted under."""
    settings = load_settings()
    async with cluster_redis(settings) as redis:
        table = await Frontier(redis, settings.keys).rules()
        return await Inspector(redis, settings.keys).domain(
            table.site_of(host) if table else domain_key(host)
        )


async def _crawl(crawl: CrawlKey) -> CrawlState:
    settings = load_settings()
    async with cluster_redis(settings) as redis:
        state = await Frontier(redis, settings.keys).crawl_state(crawl)
    if state is None:
        raise _unknown(crawl)
    return state


def _unknown(crawl: CrawlKey) -> CrawlstreamError:
    return CrawlstreamError(
        f"unknown crawl {crawl.crawlid} of application {crawl.appid} and spider"
        f" {crawl.spiderid}: `crawlstream info` lists the known ones"
    )


def _show_pages(what: str, pages: Sequence[PageReport], *, as_json: bool) -> None:
    if as_json:
        _write_json({"url": what, "crawls": [asdict(page) for page in pages]})
    elif not pages:
        say(f"No known crawl has admitted {what}.")
    for page in () if as_json else pages:
        say(f"{page.crawl.crawlid}, run {page.run}, {page.state}: {sentence_of(page)}")
        for sighting in page.sightings:
            say(f"  {_line_of(sighting)}")


def sentence_of(page: PageReport) -> str:
    """What is known of a page, in a sentence."""
    failed, filtered = map(_counted, (page.failed_by_reason, page.filtered_by_reason))
    return {
        Where.HELD: "in flight (leased by a worker)",
        Where.QUEUED: "queued",
        Where.DELAYED: "delayed (scheduled for later)",
        Where.SEEN: f"seen, no longer queued: done, redirected or failed (in this run: {failed})",
        Where.NEVER: f"never admitted: never requested, or filtered (in this run: {filtered})",
        Where.SPILLED: (
            "not seen, but links of its crawl are spilled to Kafka; it may be one of them"
        ),
        Where.UNSURE: f"seen; not among the first {page.looked_at} entries of its domain",
    }[page.where]


def _line_of(sighting: Sighting) -> str:
    attempt = f"priority {sighting.priority}, attempt {sighting.attempt}, for {sighting.spiderid}"
    if sighting.where is Where.HELD:
        held_s = (sighting.held_ms or 0) / 1000
        return f"held by {sighting.worker} for {held_s:.1f} s, {sighting.phase}; {attempt}"
    if sighting.where is Where.DELAYED:
        return f"due in {(sighting.due_ms or 0) / 1000:.1f} s; {attempt}"
    return (
        f"position {sighting.place} in its queue, {sighting.ahead} pages of its crawl before it;"
        f" {attempt}"
    )


def _show_domain(report: DomainReport, *, as_json: bool) -> None:
    if as_json:
        return _write_json(asdict(report))
    for name, value in _domain_rows(report):
        say(f"{name:<14} {value}")
    table = Table(box=None, header_style="bold")
    for name in ("spider", "index", "crawl", "app", "standing", "queued"):
        table.add_column(name, justify="right" if name in {"standing", "queued"} else "left")
    for queue in report.queues:
        for band in queue.first:
            crawl = (band.crawl.crawlid, band.crawl.appid) if band.crawl else ("(ended)", "")
            counts = (str(band.standing), str(band.queued))
            table.add_row(queue.spiderid, queue.place, *crawl, *counts)
    stdout_console().print(table if report.queues else "No pages are queued for this domain.")
    return None


def _domain_rows(report: DomainReport) -> Sequence[tuple[str, str]]:
    rule = "no rule is known yet, so nothing is fetched"
    if report.hits is not None:
        manner = "evenly" if report.is_moderated else "in bursts"
        rule = f"{report.hits} per {report.window_s:g} s, {manner}, {report.concurrency} at a time"
    return [
        ("domain", report.domain),
        ("rule", rule if report.hits != 0 else "blocked"),
        (
            "in flight",
            f"{report.under_way}, of which {report.unreported} not yet confirmed as sent",
        ),
        ("next request", f"in {report.next_ms / 1000:.1f} s at the earliest"),
    ]


def _show_crawl(state: CrawlState, *, as_json: bool) -> None:
    if as_json:
        return _write_json(views.crawl(state))
    rows = {
        "crawl": state.crawl.crawlid,
        "run": f"{state.run}, {state.state}",
        "waits": f"{state.queued} queued, {state.delayed} delayed, {state.held} held"
        + (f", {state.spilled} in Kafka" if state.spilled else ""),
        "over": f"{state.done} done, {state.redirected} redirected, {state.failed} failed",
        "failed": _counted(state.failed_by_reason),
        "filtered": _counted(state.filtered_by_reason),
        "held back": _counted(state.held_back),
    }
    for name, value in rows.items():
        say(f"{name:<14} {value}")
    for domain in state.domains:
        blocked = ", blocked" if domain.is_blocked else ""
        at = f"priority {domain.low_priority} to {domain.high_priority}{blocked}"
        say(f"{'queued at':<14} {domain.domain}: {domain.total}, {at}")
    return None


def _counted(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in reasons.items()) or "none"


def _write_json(value: Mapping[str, Any]) -> None:
    say(orjson.dumps(value).decode())
