"""Screens about the cluster: at a glance, its processes, its domains and their rules, the form."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from fastapi import APIRouter, Request, Response
from redis.exceptions import RedisError

from crawlstream.errors import CrawlstreamError
from crawlstream.model.inspection import DomainReport
from crawlstream.model.state import CrawlState
from crawlstream.model.throttle import ThrottleRule, ThrottleTable
from crawlstream.model.traffic import DomainTraffic
from crawlstream.stats.domains import OTHERS, read_domains
from crawlstream.stats.heartbeat import Process, living
from rest_service.dashboard.live import Screen, Values, show
from rest_service.dashboard.render import SHOWN, render, span, volume
from rest_service.service import Service, TheClient, TheService

UNDER_WAY = frozenset({"running", "paused", "stopping", "expiring"})
_NEEDED = ("kafka-monitor", "redis-monitor", "crawler")
_DOMAINS_SHOWN = 50
_PATIENCE_S = 3.0
"""A screen that says what does not answer is of more use than one that waits for it."""

router = APIRouter(prefix="/ui", include_in_schema=False)


async def overview(request: Request, service: Service) -> Response:
    """The cluster at a glance."""

    async def fill() -> Values:
        return await _overview(service)

    return await show(
        request, service, Screen("overview.html", "/", fill, series=service.sampler.since)
    )


async def _overview(service: Service) -> Values:
    sampler = service.sampler
    await sampler.fresh()
    processes = await _processes(service)
    under_way = [one for one in sampler.crawls if one.state in UNDER_WAY]
    return {
        "problems": _problems(service, processes),
        "figures": _figures(service),
        "crawls": latest(under_way)[:SHOWN],
        "kinds": sorted(Counter(one.kind for one in processes or ()).items()),
    }


def _problems(service: Service, processes: Sequence[Process] | None) -> list[str]:
    """What a person should look after, in sentences."""
    problems = []
    if not service.reach.kafka:
        problems.append("Kafka does not answer.")
    if processes is None or service.sampler.is_blind or not service.sampler.samples:
        return [*problems, "Redis does not answer: these values are out of date."]
    state = service.sampler.samples[-1].state
    there = {one.kind for one in processes}
    problems += [f"No {kind} is running." for kind in _NEEDED if kind not in there]
    if not state.rules_known:
        problems.append("No throttle rules are known yet, so nothing is fetched.")
    if state.is_full:
        problems.append("Redis is full: seeds stay in Kafka.")
    if state.residual:
        problems.append(
            f"The ledger does not balance: {state.residual} pages are unaccounted for. Please"
            " report this bug."
        )
    if len(versions := sorted({one.version for one in processes})) > 1:
        problems.append(f"Processes run different versions: {', '.join(versions)}.")
    return problems


def _figures(service: Service) -> list[tuple[str, str, str]]:
    """Name, value, and what stands small beside it."""
    if not service.sampler.samples:
        return []
    sample = service.sampler.samples[-1]
    state = sample.state
    waiting = state.queued + state.delayed + state.spilled
    parts = [(state.delayed, "delayed"), (state.spilled, "in Kafka")]
    told = ", ".join(f"{count:,} {name}" for count, name in parts if count)
    limit = f"of {volume(state.memory_limit)}" if state.memory_limit else "in Redis"
    hands = f"by {state.workers} worker{'s' * (state.workers != 1)}"
    body_bytes = sum(one.body_bytes for one in service.sampler.crawls)
    return [
        ("Pages per second", f"{sample.pages_per_s:.1f}", ""),
        ("Waiting", f"{waiting:,}", told),
        ("In work", f"{state.held:,}", hands),
        ("Success", "none" if sample.success is None else f"{sample.success:.0%}", "below 400"),
        ("Latency", "none" if sample.latency_ms is None else span(sample.latency_ms), "mean"),
        ("Bodies", volume(body_bytes), "remembered"),
        ("Crawls", f"{state.crawls:,}", f"{len(service.sampler.crawls):,} remembered"),
        ("Frontier", volume(state.memory_used), limit),
    ]


@router.get("/processes")
async def processes(request: Request, service: TheService) -> Response:
    """Every process that lives."""

    async def fill() -> Values:
        return {"processes": await _processes(service) or (), "reach": service.reach}

    return await show(request, service, Screen("processes.html", "/ui/processes", fill, every_s=2))


async def _processes(service: Service) -> Sequence[Process] | None:
    """All that live; None: Redis does not tell."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            found = await living(service.redis, service.keys)
    except (RedisError, TimeoutError):
        return None
    return sorted(found, key=lambda one: one.name)


@dataclass(frozen=True, slots=True)
class DomainRow:
    """One domain, as far as it is known."""

    name: str
    source: str
    rule: ThrottleRule
    traffic: DomainTraffic | None = None
    report: DomainReport | None = None

    @property
    def waiting(self) -> int:
        """Pages that wait in it, as far as their bands are listed."""
        queues = self.report.queues if self.report else ()
        return sum(band.queued for queue in queues for band in queue.first)

    @property
    def condition(self) -> str:
        """What it does just now, in a word or two."""
        if self.source == "blacklist":
            return "blocked"
        if not self.rule.effective_hits:
            return "held back"
        report = self.report
        if report is None:
            return "quiet"
        if report.strikes or report.silences:
            return "backs off"
        return "busy" if report.queues or report.under_way else "quiet"


@router.get("/domains")
async def domains(request: Request, service: TheService, name: str = "") -> Response:
    """The throttle rules, what they lead to, and forms that change them."""

    async def fill() -> Values:
        return {"name": name, **await _domains(service, name.strip().lower())}

    return await show(request, service, Screen("domains.html", "/ui/domains", fill, every_s=3))


async def _domains(service: Service, wanted: str) -> Values:
    """Domains with rules of their own, and the busiest; or the one that is asked for."""
    problems = []
    table, default = None, service.settings.default_rule
    try:
        async with asyncio.timeout(_PATIENCE_S):
            table = await service.frontier.rules()
            busy = await read_domains(service.redis, service.keys, most=_DOMAINS_SHOWN)
            known = table or ThrottleTable(default=default)
            names = [wanted] if wanted else _named(known, busy)
            rows = await asyncio.gather(*(_row(service, known, one, busy) for one in names))
    except (CrawlstreamError, RedisError, TimeoutError):
        return {"problems": ["Redis does not answer."], "default": default, "rows": [], "left": 0}
    if table is None:
        problems.append("No rules are known yet, so nothing is fetched.")
    left = 0 if wanted else len(known.rules.keys() | known.blacklist | busy.keys()) - len(rows)
    return {"problems": problems, "default": known.default, "rows": rows, "left": max(0, left)}


def _named(table: ThrottleTable, busy: Mapping[str, DomainTraffic]) -> list[str]:
    """The busiest first, then those that a person cares for."""
    own = sorted((table.rules.keys() | table.blacklist) - busy.keys())
    return [*(name for name in busy if name != OTHERS), *own][:SHOWN]


async def _row(
    service: Service, table: ThrottleTable, name: str, busy: Mapping[str, DomainTraffic]
) -> DomainRow:
    return DomainRow(
        name=name,
        source=table.source_of(name),
        rule=table.rule_for(name),
        traffic=busy.get(name),
        report=await service.inspector.domain(name),
    )


@router.get("/submit")
async def submit(client: TheClient) -> Response:
    """A form that says what is wrong while one types."""
    appid = min(client.appids, default="dashboard")
    fresh_id = uuid4().hex[:12]
    return render("submit.html", "/ui/submit", client=client, fresh_id=fresh_id, appid=appid)


def latest(found: Sequence[CrawlState]) -> Sequence[CrawlState]:
    """The latest activity first."""
    return sorted(found, key=lambda one: one.last_activity, reverse=True)
