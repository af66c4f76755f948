"""Screens about crawls: the list, a crawl in depth, its failures, its pages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from operator import attrgetter
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import NextPages
from crawlstream.model.request import Steering
from crawlstream.model.state import CrawlState, DomainBacklog
from crawlstream.model.statuses import ENDED, PAGE_ENDS, UNDER_WAY
from crawlstream.model.traffic import DomainTraffic
from crawlstream.model.words.condition import pace, waits_for
from crawlstream.stats.domains import read_domains
from crawlstream_frontier.scrapes.scrape_names import is_scrapes
from rest_service.dashboard.domain_rows import limited_by
from rest_service.dashboard.listing import Listing, ordered
from rest_service.dashboard.live import Screen, Values, show
from rest_service.dashboard.problems import REDIS_AWAY, absences
from rest_service.dashboard.render import SHOWN, crawl_path, render
from rest_service.http.access import Client
from rest_service.service import Service, TheClient, TheCrawl, TheService
from rest_service.v2.crawls import crawl_state
from rest_service.v2.living import living_spiders, with_lanes
from rest_service.v2.ordered import Fits, OrderedRecords, read_ordered
from rest_service.v2.reading import Name, ends_of, parsed, start_of, wanted_by

_LEDGER = ("admitted", *PAGE_ENDS)
_ALWAYS = ("admitted", "done", "failed")
"""Counters that are shown even if they are zero."""
_PARTS = (("delayed", "delayed"), ("spilled", "in Kafka"))
"""Waiting pages that are in no queue."""
_COLUMNS: Mapping[str, Callable[[CrawlState], Any]] = {
    "crawlid": lambda one: one.crawl.crawlid,
    "appid": lambda one: one.crawl.appid,
    "state": lambda one: one.state,
    **{name: attrgetter(name) for name in ("admitted", "done", "failed", "pending", "held")},
    **{name: attrgetter(name) for name in ("body_bytes", "last_activity")},
}
_NUMBERS = frozenset(_COLUMNS) - {"crawlid", "appid", "state"}
_NEXT = 10
"""Pages that are shown as the next."""
_FAMILIES = ("2", "3", "4", "5")
"""First digits of statuses."""
_BUTTONS: Mapping[str, tuple[tuple[Steering, str], ...]] = {
    "running": (
        ("pause", "Pause this crawl? Its queued pages are kept."),
        ("reprioritize", "Change the priority of this crawl?"),
        ("stop", "Stop this crawl? Its queued pages are dropped."),
    ),
    "paused": (
        ("resume", "Resume this crawl?"),
        ("stop", "Stop this crawl? Its queued pages are dropped."),
    ),
}

router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/crawls")
async def crawls(
    request: Request,
    service: TheService,
    client: TheClient,
    *,
    appid: Annotated[str, Query(max_length=1000)] = "",
    state: Annotated[str, Query(max_length=1000)] = "",
    q: Annotated[str, Query(max_length=1000)] = "",
    sort: str = "",
) -> Response:
    """Show crawls with progress and ledger."""

    async def fill() -> Values:
        await service.sampler.fresh()
        asked = [
            one
            for one in service.sampler.crawls
            if appid in {"", one.crawl.appid}
            and q.strip().casefold() in "\n".join(astuple(one.crawl)).casefold()
            and client.may_see(one.crawl.appid)
            and (not is_scrapes(one.crawl.crawlid) or q.strip().startswith("scrape"))
        ]
        spiders = await living_spiders(service)
        found, order = ordered(
            [one for one in asked if state in {"", one.state}],
            sort,
            _COLUMNS,
            otherwise="-last_activity",
        )
        found = await with_lanes(service, found, spiders)
        states = Counter(one.state for one in asked)
        filters = {"q": q, "appid": appid, "state": state}
        return {
            "listing": Listing("/ui/crawls", filters, order, _NUMBERS),
            "states": [(one, states[one]) for one in (*UNDER_WAY, *ENDED) if states[one]],
            "total": len(asked),
            "left": max(0, len(found) - SHOWN),
            "crawls": found[:SHOWN],
            "problems": [REDIS_AWAY] if service.sampler.is_blind else absences(found, spiders),
            "spiders": spiders,
        }

    return await show(request, service, Screen("crawls.html", "/ui/crawls", fill, every_s=2))


@router.get("/crawl")
async def crawl(
    request: Request, service: TheService, client: TheClient, key: TheCrawl
) -> Response:
    """Show a crawl in depth."""

    async def fill() -> Values:
        return await _crawl(service, client, key)

    def series(at: float) -> Any:
        return service.sampler.timeline(key, at)

    return await show(request, service, Screen("crawl.html", "/ui/crawls", fill, series=series))


async def _crawl(service: Service, client: Client, key: CrawlKey) -> Values:
    one = await crawl_state(service, key)
    domains = sorted(one.domains, key=lambda domain: domain.total, reverse=True)[:SHOWN]
    traffic = await service.sampler.shared(
        "traffic", lambda: read_domains(service.redis, service.keys, most=1000)
    )
    if client.appids:
        # The traffic includes requests of all applications.
        traffic = {}
    spiders = await living_spiders(service)
    # Without a crawler, pages do not wait for their domain.
    fullest = domains[: not waits_for(one, spiders)]
    return {
        "one": one,
        "spiders": spiders,
        "problems": [one._replace(path="") for one in absences([one], spiders)],
        "ledger": _ledger(one),
        "pace": pace(
            one.ended,
            left=_left(one),
            took_s=_took_s(one),
            idle_s=time.time() - one.last_activity,
        ),
        "limit": await _limit(service, client, one, traffic=traffic, fullest=fullest),
        "domains": [(domain, traffic.get(domain.domain)) for domain in domains],
        "left": len(one.domains) - len(domains),
        "next": await _next(service, one),
        "steering": _BUTTONS.get(one.state, ()),
    }


async def _next(service: Service, one: CrawlState) -> NextPages | None:
    """Return the next pages of a running crawl; None: it has no pages that wait."""
    if one.state != "running" or not one.pending:
        return None
    return await service.frontier.queries.next_pages(one.crawl, _NEXT)


async def _limit(
    service: Service,
    client: Client,
    one: CrawlState,
    *,
    traffic: Mapping[str, DomainTraffic],
    fullest: Sequence[DomainBacklog],
) -> tuple[str, str]:
    """Return the domain for which most pages of a running crawl wait, and what limits it."""
    if one.state != "running" or client.appids or not fullest:
        return "", ""
    (domain,) = fullest
    table = await service.frontier.rules.table()
    if table is None:
        return domain.domain, "no rules are known yet, so nothing is fetched"
    report = await service.frontier.inspector.domain(domain.domain)
    rule = table.rule_for(domain.domain)
    return domain.domain, limited_by(rule, report, traffic.get(domain.domain), waiting=domain.total)


def _ledger(one: CrawlState) -> Sequence[tuple[str, int, str]]:
    """Return name, count and note of each counter that is shown."""
    shown = [(name, getattr(one, name)) for name in _LEDGER]
    parts = [f"{count:,} {word}" for name, word in _PARTS if (count := getattr(one, name))]
    return [
        *((name, count, "") for name, count in shown if count or name in _ALWAYS),
        ("waiting", one.pending, ", ".join(parts)),
        ("in flight", one.held, ""),
    ]


def _left(one: CrawlState) -> int:
    """Return the pages that are still to come; 0 if nothing is fetched at present."""
    return one.pending + one.held if one.state == "running" else 0


def _took_s(one: CrawlState) -> float:
    """Return the seconds since the run began, or that it took."""
    return (time.time() if one.is_under_way else one.last_activity) - one.started_at


@router.get("/crawl/failures")
async def failures(
    service: TheService,
    client: TheClient,
    key: TheCrawl,
    *,
    cursor: str | None = None,
    reason: Annotated[str, Query(max_length=1000)] = "",
    q: Annotated[str, Query(max_length=1000)] = "",
) -> Response:
    """Show pages of a crawl that failed, by reason, the newest first."""
    one = await crawl_state(service, key)
    part = q.strip().casefold()

    def fits(value: Mapping[str, Any]) -> bool:
        is_reason = reason in {"", str(value.get("reason"))}
        return is_reason and part in str(value.get("url")).casefold()

    found = await _newest(
        service, client, "events", one=one, cursor=cursor, event="page_failed", fits=fits
    )
    counts = sorted(one.failed_by_reason.items(), key=lambda item: item[1], reverse=True)
    shown: dict[str, list[Mapping[str, Any]]] = {
        name: [] for name, _ in counts if reason in {"", name}
    }
    for record in found.records:
        value: Any = record["value"]
        shown.setdefault(str(value.get("reason")), []).append({**value, "at_ms": record["at_ms"]})
    listing = _listing(one, "/ui/crawl/failures", reason=reason, q=q)
    return render(
        "failures.html",
        "/ui/crawls",
        client=client,
        one=one,
        counts=dict(counts),
        reasons=shown.items(),
        listing=listing,
        is_first=cursor is None,
        next_path=None if found.is_at_end else listing.link(cursor=found.cursor),
        csv_path=export_path(one, "events", "csv", event="page_failed"),
    )


@router.get("/crawl/pages")
async def pages(
    service: TheService,
    client: TheClient,
    key: TheCrawl,
    *,
    cursor: str | None = None,
    status: Annotated[str, Query(max_length=1)] = "",
    q: Annotated[str, Query(max_length=1000)] = "",
) -> Response:
    """Show pages of a crawl as they were received, the newest first."""
    one = await crawl_state(service, key)
    part = q.strip().casefold()

    def fits(value: Mapping[str, Any]) -> bool:
        code = str(value.get("status_code"))
        return code.startswith(status) and part in str(value.get("url")).casefold()

    found = await _newest(service, client, "results", one=one, cursor=cursor, fits=fits)
    counts: Counter[str] = Counter()
    for code, count in one.done_by_status.items():
        counts[str(code)[:1]] += count
    listing = _listing(one, "/ui/crawl/pages", status=status, q=q)
    return render(
        "pages.html",
        "/ui/crawls",
        client=client,
        one=one,
        families=[(first, counts[first]) for first in _FAMILIES],
        records=found.records,
        listing=listing,
        is_first=cursor is None,
        next_path=None if found.is_at_end else listing.link(cursor=found.cursor),
        jsonl_path=export_path(one, "results", "jsonl"),
        csv_path=export_path(one, "results", "csv"),
    )


def _listing(one: CrawlState, path: str, **filters: str) -> Listing:
    key = one.crawl
    ids = {"appid": key.appid, "crawlid": key.crawlid, "spiderid": key.spiderid}
    return Listing(path, {**ids, **filters}, "")


def export_path(one: CrawlState, name: str, form: str, **more: str) -> str:
    """Return the address of a file with all records of a crawl on a topic."""
    return crawl_path(one, f"/v2/{name}/export", format=form, **more)


async def _newest(
    service: Service,
    client: Client,
    name: Name,
    *,
    one: CrawlState,
    cursor: str | None,
    fits: Fits,
    event: str | None = None,
) -> OrderedRecords:
    """Return records of a crawl's latest run that fit, the newest first."""
    key = one.crawl
    wanted = wanted_by(
        client, appid=key.appid, crawlid=key.crawlid, spiderid=key.spiderid, event=event
    )
    async with service.pages.of(client.name):
        ends = await ends_of(service, name)
        bounds = await start_of(service, name, one)
        at = ends | (parsed(cursor, ends) if cursor else {})
        return await read_ordered(
            service, name, wanted, at=at, bounds=bounds, limit=SHOWN, fits=fits
        )
