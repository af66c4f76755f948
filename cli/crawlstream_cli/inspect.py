"""``crawlstream frontier``: where a page is, what a domain does, what a crawl requests next."""

from __future__ import annotations

import asyncio
import getpass
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer
from rich.markup import escape
from rich.table import Table

from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import DomainReport, NextPages, UrlReport
from crawlstream.model.state import CrawlState
from crawlstream.model.url import fold_host, seed_url
from crawlstream.model.web.refused_families import as_records
from crawlstream.model.words.quantities import by_reason
from crawlstream.wire import views
from crawlstream_cli.common.client import cluster_frontier
from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.common.times import moment
from crawlstream_cli.common.which import AppId, Spider, unknown_crawl, which_crawl
from crawlstream_cli.common.words import of_families
from crawlstream_frontier.inspector import MOST_CRAWLS
from crawlstream_frontier.opening.servers import shelf_of
from crawlstream_frontier.partitions.family_decisions import FORGET, WHY_NOT, decide, guard_report
from crawlstream_frontier.queries import MOST_NEXT
from crawlstream_frontier.waste.persons import PersonWord, check_family
from crawlstream_frontier.waste.report import SketchReport
from crawlstream_frontier.worker.person_store import OK

frontier = typer.Typer(
    help="Inspect the frontier: queued and in-flight pages, domains, crawls.",
    no_args_is_help=True,
    add_completion=False,
)


_NOT_IN_HOSTS = frozenset(":?#\\")


class ObjectKind(StrEnum):
    """Kind of object to inspect."""

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
        ObjectKind | None,
        typer.Option(
            "--as",
            help=(
                "Type of the argument. Default: with a slash a URL, with a dot a domain (a URL if a"
                " port or a query follows), else a crawl."
            ),
        ),
    ] = None,
    crawlid: Annotated[
        str | None, typer.Option(help="Only look for the URL in this crawl; default: all crawls.")
    ] = None,
    appid: AppId = None,
    spider: Spider = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show where a page is, the state of a domain, or the progress of a crawl.

    The frontier is the queues in Redis. It stores queued and in-flight pages, and for finished
    pages only that they were seen. Outcomes of finished pages are on the result and event topics.
    Any spelling of a URL finds its page. The address is the URL that would be requested; the
    identity is the form that all spellings of the page have in common.

    Example: crawlstream frontier inspect https://example.com/page --crawlid 7f3a9c0b12de
    """
    asked = kind or kind_of(what)
    if asked is ObjectKind.URL:
        crawl = None if crawlid is None else _meant(crawlid, appid, spider)
        report = asyncio.run(_url(seed_url(what), crawl))
        _show_url(what, report, as_json=as_json)
    elif asked is ObjectKind.DOMAIN:
        _show_domain(*asyncio.run(_domain(fold_host(what))), as_json=as_json)
    else:
        _show_crawl(asyncio.run(_crawl(_meant(what, appid, spider))), as_json=as_json)


@frontier.command("top")
def top(
    crawlid: Annotated[str, typer.Argument(metavar="CRAWL", help="Id of the crawl.")],
    *,
    number: Annotated[
        int, typer.Option("-n", min=1, max=MOST_NEXT, help="Number of pages to show.")
    ] = 20,
    appid: AppId = None,
    spider: Spider = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which pages of a crawl are requested next, and why they come first.

    Pages are in the order in which their domains allow requests; within a domain the order is
    exact. "In" is the earliest time by the rule of the domain. The reason is seed, link,
    redirect, promoted, host_budget (its domain is over it), or the number of the priority rule that
    a link fits.

    Example: crawlstream frontier top 7f3a9c0b12de -n 10
    """
    found = asyncio.run(_next(_meant(crawlid, appid, spider), number))
    if as_json:
        return _write_json(views.next_pages(found))
    table = Table(box=None, header_style="bold")
    for name in ("in", "priority", "depth", "why", "url"):
        table.add_column(
            name,
            justify="right" if name in {"in", "priority", "depth"} else "left",
            overflow="fold",
        )
    for page in found.pages:
        wait = "never" if page.due_ms is None else f"{page.due_ms / 1000:.1f} s"
        numbers = (str(page.priority), str(page.depth))
        table.add_row(wait, *numbers, views.why_next(page), escape(page.url))
    stdout_console().print(
        table if found.pages else f"No page of this crawl can be requested; it is {found.state}."
    )
    if found.pages and not found.is_complete:
        print_line("The crawl has more domains than were examined: others may come in between.")
    return None


async def _next(crawl: CrawlKey, number: int) -> NextPages:
    settings = load_settings()
    async with cluster_frontier(settings) as frontier:
        found = await frontier.queries.next_pages(crawl, number)
    if found is None:
        raise unknown_crawl(crawl.crawlid, crawl.appid, crawl.spiderid)
    return found


@frontier.command("guard")
def show_guard(
    domain: Annotated[str, typer.Argument(metavar="DOMAIN", help="Domain or host to look up.")],
    *,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FAMILY",
            help="Follow links into this family as usual, whatever is learned. Repeatable.",
        ),
    ] = None,
    refuse: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FAMILY",
            help="Leave out all links into this family, and skip its pages. Repeatable.",
        ),
    ] = None,
    forget: Annotated[
        list[str] | None,
        typer.Option(metavar="FAMILY", help="Take back a manual verdict. Repeatable."),
    ] = None,
    author: Annotated[
        str | None,
        typer.Option(help="Name to keep with the verdict; default: that of the system's user."),
    ] = None,
) -> None:
    """Print as JSON what the waste guard has learned of a domain, and the manual verdicts.

    Families are sets of URLs that are judged together: ?NAME of a query parameter, host for other
    hosts, or the form of a path, as /events/#/#. Names are kept only of families with a verdict;
    others are shown by their hash. Manual verdicts hold for all crawls whose guard is on, until
    they are taken back; crawlers know them within ten seconds.

    Example: crawlstream frontier guard shop.example.com --allow ?color --refuse /calendar/#/#
    """
    host = fold_host(domain)
    words = {PersonWord.ALLOW: allow or (), PersonWord.REFUSE: refuse or (), FORGET: forget or ()}
    named = [(word, check_family(name)) for word, names in words.items() for name in names]
    if named:
        text = author or getpass.getuser()
        by = "".join(filter(str.isprintable, text))[:_LONGEST_AUTHOR]
        asyncio.run(_decide(host, named, by))
    _, report = asyncio.run(_domain(host))
    _write_json(asdict(report))


_LONGEST_AUTHOR = 100


async def _decide(host: str, named: Sequence[tuple[str, str]], author: str) -> None:
    """Store verdicts of a person; ConfigError for the first one that is not taken."""
    async with cluster_frontier(load_settings()) as frontier:
        for word, family in named:
            answer = await decide(frontier, host, word, family=family, author=author)
            if answer != OK:
                raise ConfigError(f"{family} of {host}: {WHY_NOT[answer]}")


def _meant(crawlid: str, appid: str | None, spider: str | None) -> CrawlKey:
    return asyncio.run(which_crawl(load_settings(), crawlid, appid=appid, spider=spider))


def kind_of(what: str) -> ObjectKind:
    """Return the kind that a person most likely means."""
    if "/" in what:
        return ObjectKind.URL
    if "." not in what:
        return ObjectKind.DOMAIN if what == "localhost" else ObjectKind.CRAWL
    return ObjectKind.DOMAIN if _NOT_IN_HOSTS.isdisjoint(what) else ObjectKind.URL


async def _url(url: str, crawl: CrawlKey | None) -> UrlReport:
    """Return the state of a page in one crawl, or in each that is known."""
    settings = load_settings()
    async with shelf_of(settings) as shelf, cluster_frontier(settings, shelf) as frontier:
        inspector = frontier.inspector
        crawls = [crawl] if crawl else await inspector.crawls(MOST_CRAWLS + 1)
        report = await inspector.url(url, crawls, with_never=crawl is not None)
    if crawl and not report.crawls:
        raise unknown_crawl(crawl.crawlid, crawl.appid, crawl.spiderid)
    if report.is_cut:
        sys.stderr.write(f"Only {report.asked} crawls were searched: choose one with --crawlid.\n")
    return report


async def _domain(host: str) -> tuple[DomainReport, SketchReport]:
    """Return the state of the site under which a host is counted, and its sketch."""
    settings = load_settings()
    async with cluster_frontier(settings) as frontier:
        site = await frontier.site_of(host)
        return await frontier.inspector.domain(site), await guard_report(frontier, host)


async def _crawl(crawl: CrawlKey) -> CrawlState:
    settings = load_settings()
    async with cluster_frontier(settings) as frontier:
        state = await frontier.queries.crawl_state(crawl)
    if state is None:
        raise unknown_crawl(crawl.crawlid, crawl.appid, crawl.spiderid)
    return state


def _show_url(what: str, report: UrlReport, *, as_json: bool) -> None:
    told: Any = views.url(report)
    if as_json:
        return _write_json(told)
    print_line(f"address {told['url']}")
    if told["identity"] != told["url"]:
        print_line(f"identity {told['identity']} (all its spellings are one page)")
    if not report.crawls:
        print_line(f"No known crawl has admitted {what}.")
    for page, shown in zip(report.crawls, told["crawls"], strict=True):
        print_line(f"{page.crawl.crawlid}, run {page.run}, {page.state}: {shown['summary']}")
        for sighting in shown["sightings"]:
            print_line(f"  {sighting['summary']}")
        if page.host_budget:
            print_line(f"  {page.host_budget}")
    if report.domain:
        print_line(f"{report.domain.domain}: {told['limits']}")
    return None


def _show_domain(report: DomainReport, guard: SketchReport, *, as_json: bool) -> None:
    if as_json:
        return _write_json({**views.domain(report), "guard": asdict(guard)})
    for name, value in (*_domain_rows(report), *_guard_rows(guard)):
        print_line(f"{name:<14} {value}")
    table = Table(box=None, header_style="bold")
    for name in ("spider", "index", "crawl", "app", "priority", "queued"):
        table.add_column(name, justify="right" if name in {"priority", "queued"} else "left")
    for queue in report.queues:
        for each in queue.first:
            crawl = (each.crawl.crawlid, each.crawl.appid) if each.crawl else ("(ended)", "")
            counts = (str(each.standing), str(each.queued))
            table.add_row(queue.spiderid, queue.place, *crawl, *counts)
    stdout_console().print(table if report.queues else "No pages are queued for this domain.")
    return None


def _domain_rows(report: DomainReport) -> Sequence[tuple[str, str]]:
    rule = "no rule is known yet, so nothing is fetched"
    if report.rule is not None:
        rule = str(report.rule) if report.rule.effective_hits else "blocked"
    return [
        ("domain", report.domain),
        ("rule", rule),
        (
            "in flight",
            f"{report.under_way}, of which {report.unreported} not yet confirmed as sent",
        ),
        ("next request", f"in {report.next_ms / 1000:.1f} s at the earliest"),
    ]


def _guard_rows(report: SketchReport) -> Sequence[tuple[str, str]]:
    """Return what the waste guard has learned; nothing about families that are open."""
    persons = [
        ("", f"{each.family} {each.verdict}: {each.author}, {moment(each.at, now=time.time())}")
        for each in report.persons
    ]
    if not report.pages:
        return [("guard", "no pages have been compared"), *persons]
    judged = [each for each in report.families if each.verdict != "open"]
    rows = [("guard", f"{report.pages} pages compared, {len(judged)} families with a verdict")]
    learned = [("", f"{each.family} {each.verdict}: {each.summary}") for each in judged]
    return [*rows, *learned, *persons]


def _show_crawl(state: CrawlState, *, as_json: bool) -> None:
    if as_json:
        return _write_json(views.crawl(state))
    rows = {
        "crawl": state.crawl.crawlid,
        "run": f"{state.run}, {state.state}",
        "waiting": f"{state.queued} queued, {state.delayed} delayed, {state.held} in flight"
        + (f", {state.spilled} in Kafka" if state.spilled else "")
        + (f"; {state.shelved} of the queued on the shelf" if state.shelved else ""),
        "over": f"{state.done} done, {state.redirected} redirected, {state.failed} failed"
        + (f", {state.skipped} skipped" if state.skipped else ""),
        "failed": by_reason(state.failed_by_reason) or "none",
        "filtered": by_reason(state.filtered_by_reason) or "none",
        "held back": by_reason(state.held_back) or "none",
    }
    if state.refused_families:
        rows["refused"] = of_families(as_records(state.refused_families))
    for name, value in rows.items():
        print_line(f"{name:<14} {value}")
    for domain in state.domains:
        blocked = ", blocked" if domain.is_blocked else ""
        at = f"priority {domain.low_priority} to {domain.high_priority}{blocked}"
        print_line(f"{'queued at':<14} {domain.domain}: {domain.total}, {at}")
    return None


def _write_json(value: Mapping[str, Any]) -> None:
    print_line(orjson.dumps(value).decode())
