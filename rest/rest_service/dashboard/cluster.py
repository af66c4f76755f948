"""Screens about the cluster: overview, processes, domains and their rules, proxies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from redis.exceptions import RedisError

from crawlstream.errors import CrawlstreamError
from crawlstream.model.state import CrawlState
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.model.traffic import DomainTraffic
from crawlstream.model.words.quantities import size
from crawlstream.stats.domains import OTHERS, read_domains
from crawlstream.stats.wishes import Wish, wish
from crawlstream_frontier.egress.purse_report import purse_json
from crawlstream_frontier.rule_history import read_changes
from crawlstream_frontier.scrapes.scrape_names import is_scrapes
from rest_service.dashboard.domain_rows import DomainRow, Waits
from rest_service.dashboard.listing import Listing, ordered
from rest_service.dashboard.live import Screen, Values, show
from rest_service.dashboard.problems import REDIS_AWAY, ProblemNote, problems_of
from rest_service.dashboard.render import SHOWN, render, span
from rest_service.http.access import Client
from rest_service.sampler import KEPT_S, Point
from rest_service.service import Service, TheService
from rest_service.v2.living import PATIENCE_S, living_processes, spiders_of, with_lanes
from rest_service.v2.proxies import states_of_pools

_DOMAINS_KNOWN = 1_000
"""Domains with traffic that may be searched; only those shown are inspected in depth."""
DEFAULT = "default"
"""The name of the rule of all domains without one."""

router = APIRouter(prefix="/ui", include_in_schema=False)


SPANS = {900: "15 min", 3600: "1 h", 86400: "1 day", 604800: "7 days"}
"""Lengths of time that charts can show, in seconds."""


async def overview(request: Request, service: Service) -> Response:
    """Show the overview of the cluster."""
    sampler = service.sampler
    asked = request.query_params.get("span", "")
    span_s = int(asked) if asked.isdecimal() and int(asked) in SPANS else next(iter(SPANS))

    async def fill() -> Values:
        values = await _overview(service)
        if span_s > KEPT_S and not sampler.is_blind:
            await sampler.look_back(span_s)
        return {**values, "span_s": span_s, "spans": SPANS}

    def series(at: float) -> Sequence[Point]:
        return sampler.past(span_s, at) if span_s > KEPT_S else sampler.since(at)

    return await show(request, service, Screen("overview.html", "/", fill, series=series))


async def _overview(service: Service) -> Values:
    sampler = service.sampler
    await sampler.fresh()
    processes = await living_processes(service)
    under_way = latest(
        [one for one in sampler.crawls if one.is_under_way and not is_scrapes(one.crawl.crawlid)]
    )[:SHOWN]
    spiders = spiders_of(processes)
    return {
        "problems": problems_of(service, processes),
        "spiders": spiders,
        "figures": _figures(service),
        "crawls": await with_lanes(service, under_way, spiders),
        "kinds": sorted(Counter(one.kind for one in processes or ()).items()),
    }


def _figures(service: Service) -> list[tuple[str, str, str]]:
    """Return name, value and note of each figure."""
    if not service.sampler.samples:
        return []
    sample = service.sampler.samples[-1]
    state, lately = sample.state, sample.lately
    waiting = state.queued + state.delayed + state.spilled
    parts = [
        (state.shelved, "on the shelf"),
        (state.delayed, "delayed"),
        (state.spilled, "in Kafka"),
    ]
    told = ", ".join(f"{count:,} {name}" for count, name in parts if count)
    limit = f"of {size(state.memory_limit)}" if state.memory_limit else "in Redis"
    hands = f"at {state.workers} worker{'s' * (state.workers != 1)}"
    body_bytes = sum(one.body_bytes for one in service.sampler.crawls)
    answers = "no answers" if lately.success is None else "answers below 400"
    return [
        ("Pages per second", f"{sample.pages_per_s:.1f}", ""),
        ("Waiting", f"{waiting:,}", told),
        ("In flight", f"{state.held:,}", hands),
        ("Success", "-" if lately.success is None else f"{lately.success:.0%}", answers),
        ("Latency", "-" if lately.latency_ms is None else span(lately.latency_ms), "mean"),
        ("Bodies", size(body_bytes), "of all known crawls"),
        ("Running crawls", f"{state.crawls:,}", f"{len(service.sampler.crawls):,} known"),
        ("Frontier", size(state.memory_used), limit),
    ]


@router.get("/processes")
async def processes(request: Request, service: TheService) -> Response:
    """Show every running process."""

    async def fill() -> Values:
        return {"processes": await living_processes(service) or (), "reach": service.reach}

    return await show(request, service, Screen("processes.html", "/ui/processes", fill, every_s=2))


@router.get("/process")
async def process(
    request: Request, service: TheService, name: Annotated[str, Query(max_length=300)]
) -> Response:
    """Show a process, with the latest lines of its log while the screen is open."""

    async def fill() -> Values:
        found = await living_processes(service)
        one = next((one for one in found or () if one.name == name), None)
        if one:
            with suppress(RedisError):
                first, *also = service.frontier.heartbeats
                await wish(*first, name, Wish.TAIL, also=also)
        is_known = found is not None
        return {"name": name, "one": one, "problems": [] if is_known else [REDIS_AWAY]}

    return await show(request, service, Screen("process.html", "/ui/processes", fill, every_s=1))


def _failures(traffic: DomainTraffic) -> float:
    return traffic.responses * (1 - traffic.success_rate)


_COLUMNS: Mapping[str, Callable[[DomainRow], Any]] = {
    "name": lambda row: row.name,
    "state": lambda row: row.condition,
    "waiting": lambda row: row.waiting,
    "responses": lambda row: row.traffic and row.traffic.responses,
    "success": lambda row: row.traffic and row.traffic.success_rate,
    "failing": lambda row: row.traffic and _failures(row.traffic),
    "latency": lambda row: row.traffic and row.traffic.latency_ms,
}


@router.get("/domains")
async def domains(
    request: Request,
    service: TheService,
    *,
    name: Annotated[str, Query(max_length=1000)] = "",
    q: Annotated[str, Query(max_length=1000)] = "",
    sort: str = "",
) -> Response:
    """Show the throttle rules, their effect, and forms that change them."""
    wanted = name.strip().lower()

    async def fill() -> Values:
        return await _screen(service, name, q, sort)

    def series(at: float) -> Sequence[Point]:
        return service.rates.since(wanted, at) if wanted else ()

    screen = Screen("domains.html", "/ui/domains", fill, series=series, every_s=3)
    return await show(request, service, screen)


async def rule_screen(
    service: Service,
    client: Client,
    *,
    typed: Mapping[str, str],
    wrong: Mapping[str, str],
    status: int,
) -> Response:
    """Return the screen of a domain, with the input and the problems of the form of its rule."""
    values = await _screen(service, typed.get("domain", ""), "", "")
    return render(
        "domains.html",
        "/ui/domains",
        client=client,
        status=status,
        **{**values, "typed": typed, "wrong": wrong},
    )


async def _screen(service: Service, name: str, q: str, sort: str) -> Values:
    wanted = name.strip().lower()
    found = await _domains(service, wanted, q.strip().lower())
    rows, order = ordered(found["rows"], sort, _COLUMNS, otherwise="-responses")
    edited = found["default"] if name == DEFAULT else rows[0].rule if name and rows else None
    if wanted and rows:
        await service.rates.look(service.redis, service.keys, rows[0].name, rows[0].rule)
    return {
        **found,
        "name": name,
        "listing": Listing("/ui/domains", {"name": name, "q": q}, order, _NUMBERS),
        "rows": rows,
        "edited": edited,
    }


_NUMBERS = frozenset({"waiting", "responses", "failing", "latency"})
"""Columns sorted by the largest value first; for success, the smallest comes first."""


async def _domains(service: Service, wanted: str, part: str) -> Values:
    """Return domains with rules and the busiest, if ``part`` is in their names; or one domain."""
    problems: list[ProblemNote] = []
    table, default = None, service.settings.default_rule
    try:
        async with asyncio.timeout(PATIENCE_S):
            table = await service.frontier.rules.table()
            busy = await read_domains(service.redis, service.keys, most=_DOMAINS_KNOWN)
            known = table or ThrottleTable(default=default)
            fitting = [one for one in _named(known, busy) if part in one]
            names = [] if wanted == DEFAULT else [wanted] if wanted else fitting[:SHOWN]
            history = await read_changes(service.redis, service.keys, wanted)
            row = partial(_row, service, known, busy=busy, why=await Waits.of(service))
            rows = await asyncio.gather(*map(row, names))
    except (CrawlstreamError, RedisError, TimeoutError):
        return {
            "problems": [ProblemNote("Redis does not answer.")],
            "default": default,
            "rows": [],
            "total": 0,
            "history": [],
        }
    if table is None:
        problems.append(ProblemNote("No rules are known yet, so nothing is fetched."))
    total = len(rows) if wanted else len(fitting)
    return {
        "problems": problems,
        "default": known.default,
        "rows": rows,
        "total": total,
        "history": history,
    }


def _named(table: ThrottleTable, busy: Mapping[str, DomainTraffic]) -> list[str]:
    """Return the busiest domains first, then those with a rule or a block."""
    own = sorted((table.rules.keys() | table.blacklist) - busy.keys())
    return [*(name for name in busy if name != OTHERS), *own]


async def _row(
    service: Service,
    table: ThrottleTable,
    name: str,
    *,
    busy: Mapping[str, DomainTraffic],
    why: Waits,
) -> DomainRow:
    return DomainRow(
        name=name,
        source=table.source_of(name),
        rule=table.rule_for(name),
        traffic=busy.get(name),
        report=await service.frontier.inspector.domain(name),
        paused=why.paused.get(name, {}),
        spiders=why.spiders,
    )


def latest(found: Sequence[CrawlState]) -> Sequence[CrawlState]:
    """Return crawls sorted by latest activity first."""
    return sorted(found, key=lambda one: one.last_activity, reverse=True)


@router.get("/proxies")
async def proxies(request: Request, service: TheService) -> Response:
    """Show all pools of proxies; in each, proxies that are not well come first."""

    async def fill() -> Values:
        states, table = await states_of_pools(service)
        rows = {
            state.pool.name: sorted(
                state.proxies, key=lambda each: (each.state == "ok", each.health.score)
            )[:SHOWN]
            for state in states
        }
        return {"pools": states, "rows": rows, "table": table}

    return await show(request, service, Screen("proxies.html", "/ui/proxies", fill, every_s=5))


@router.get("/purses")
async def purses(request: Request, service: TheService) -> Response:
    """Show all purses: what they have spent of their budgets, and whether they pay."""

    async def fill() -> Values:
        return {"purses": [purse_json(state) for state in await service.frontier.root.purses.all()]}

    return await show(request, service, Screen("purses.html", "/ui/purses", fill, every_s=5))
