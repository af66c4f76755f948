"""The screens: each asks the cluster and fills a template."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import urlencode
from uuid import uuid4

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from redis.exceptions import RedisError

from crawlstream.errors import CrawlstreamError, RedisUnavailable
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from crawlstream.stats.heartbeat import living
from crawlstream.stats.history import History
from rest_service.crawls import crawl_state
from rest_service.records import Name, Page, Wanted, read_page
from rest_service.service import Service, TheService

SCREENS = (
    ("/", "Cluster"),
    ("/ui/crawls", "Crawls"),
    ("/ui/domains", "Domains and throttle"),
    ("/ui/rejected", "Rejected"),
    ("/ui/submit", "Start a crawl"),
)
SHOWN = 100
"""Rows of a table, at most."""
WINDOW = "900"
"""Seconds that the cluster's figures are counted over, as ``stats.history`` names them."""
_LONGEST_TEXT = 2_000
_UNDER_WAY = {"running", "paused", "stopping", "expiring"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_FAILURE = ("url", "reason", "attempts", "depth", "parent", "server_time")
_STEERING = (
    ("pause", "Hold this crawl back?"),
    ("resume", "Let this crawl go on?"),
    ("reprioritize", "Move this crawl?"),
    ("stop", "Stop this crawl? What waits is dropped."),
)
_EDITS = (
    ("Remove a rule", "/v2/throttle/rules/", "DELETE", "Let the default rule apply again?"),
    ("Block a domain", "/v2/throttle/blacklist/", "PUT", "Fetch nothing from this domain?"),
    ("Unblock a domain", "/v2/throttle/blacklist/", "DELETE", "Let this domain be fetched again?"),
)

router = APIRouter(prefix="/ui", include_in_schema=False)


def crawl_path(state: CrawlState, screen: str = "/ui/crawl", **more: str) -> str:
    """The address of a screen about one crawl."""
    key = state.crawl
    ids = {"appid": key.appid, "crawlid": key.crawlid, "spiderid": key.spiderid}
    return f"{screen}?{urlencode(ids | more)}"


def ended(state: CrawlState) -> int:
    """Pages of a run that have come to an end of any kind."""
    return state.done + state.failed + state.redirected + state.stopped + state.expired


def duration(since: float) -> str:
    """How long ago a time is, in hours, minutes, seconds."""
    minutes, seconds = divmod(max(0, int(time.time() - since)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def shown(value: object) -> str:
    """Any value of a record as text, cut where nobody reads on."""
    if isinstance(value, list):
        return "; ".join(map(shown, value))
    return "" if value is None else str(value)[:_LONGEST_TEXT]


def csv_cell(value: object) -> str:
    """A cell that no spreadsheet takes for a formula."""
    text = shown(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


_templates = Environment(
    loader=PackageLoader("rest_service.dashboard"), autoescape=True, undefined=StrictUndefined
)
_templates.globals.update(
    crawl_path=crawl_path, duration=duration, ended=ended, screens=SCREENS, shown=shown
)


def render(template: str, here: str = "", *, status: int = 200, **values: object) -> Response:
    """A screen as HTML; ``here`` is the one of ``SCREENS`` that it belongs to."""
    text = _templates.get_template(template).render(here=here, **values)
    return HTMLResponse(text, status_code=status)


async def overview(service: Service) -> Response:
    """The cluster at a glance; what does not answer is said instead of being shown."""
    problems: list[str] = []
    figures: list[tuple[str, object]] = []
    found: Sequence[CrawlState] = ()
    processes: Sequence[Any] = ()
    try:
        figures = await _figures(service)
        found = [one for one in await service.frontier.crawls() if one.state in _UNDER_WAY]
        processes = await living(service.redis, service.keys)
    except (CrawlstreamError, RedisError):
        problems.append("Redis does not answer.")
    if not service.reach.kafka:
        problems.append("Kafka does not answer.")
    return render(
        "overview.html",
        "/",
        problems=problems,
        figures=figures,
        crawls=_latest(found)[:SHOWN],
        processes=sorted(processes, key=lambda one: one.name),
    )


async def _figures(service: Service) -> list[tuple[str, object]]:
    state = await service.frontier.state()
    counted = await History(service.redis, service.keys).read("spider")
    pages = sum(counts.get(WINDOW, 0) for counts in counted.values())
    good = sum(
        counts.get(WINDOW, 0) for path, counts in counted.items() if path[-1].startswith("2")
    )
    return [
        ("crawls under way", state.crawls),
        ("queued", state.queued),
        ("delayed", state.delayed),
        ("in Kafka", state.spilled),
        ("in work", state.held),
        ("workers", state.workers),
        ("answers in 15 min", pages),
        ("of these 2xx", f"{good / pages:.0%}" if pages else "none"),
        ("rules known", "yes" if state.rules_known else "no"),
    ]


@router.get("/crawls")
async def crawls(
    service: TheService, appid: Annotated[str, Query()] = "", state: Annotated[str, Query()] = ""
) -> Response:
    """Crawls with progress and ledger."""
    problems: list[str] = []
    found: Sequence[CrawlState] = ()
    try:
        found = await service.frontier.crawls(appid=appid or None)
    except RedisUnavailable:
        problems.append("Redis does not answer.")
    fitting = _latest([one for one in found if state in {"", one.state}])
    return render(
        "crawls.html",
        "/ui/crawls",
        appid=appid,
        state=state,
        total=len(fitting),
        crawls=fitting[:SHOWN],
        problems=problems,
    )


@router.get("/crawl")
async def crawl(service: TheService, appid: str, crawlid: str, spiderid: str = "link") -> Response:
    """One crawl in depth."""
    one = await crawl_state(service, CrawlKey(spiderid, appid, crawlid))
    names = ("admitted", "done", "failed", "redirected", "stopped", "expired")
    waits = ("queued", "delayed", "held", "spilled")
    figures = [(name, getattr(one, name)) for name in (*names, *waits)]
    domains = sorted(one.domains, key=lambda domain: domain.total, reverse=True)[:SHOWN]
    return render(
        "crawl.html",
        "/ui/crawls",
        one=one,
        figures=[*figures, ("MiB of bodies", f"{one.body_bytes / 2**20:.1f}")],
        domains=[(domain.domain, domain.total) for domain in domains],
        steering=_STEERING,
        failures_path=crawl_path(one, "/ui/failures"),
        csv_path=crawl_path(one, "/ui/failures.csv"),
    )


@router.get("/failures")
async def failures(
    service: TheService, appid: str, crawlid: str, cursor: str | None = None
) -> Response:
    """Pages of a crawl that failed, and why."""
    found, is_at_end = await _failures(service, appid, crawlid, cursor)
    more = urlencode({"appid": appid, "crawlid": crawlid, "cursor": found.cursor})
    return render(
        "records.html",
        "/ui/crawls",
        heading=f"Failed pages of {crawlid}",
        columns=_FAILURE,
        records=found.records,
        next_path=None if is_at_end else f"/ui/failures?{more}",
    )


@router.get("/failures.csv")
async def failures_csv(
    service: TheService, appid: str, crawlid: str, cursor: str | None = None
) -> Response:
    """The same as a table for spreadsheets; the header ``X-Next-Cursor`` says where it goes on."""
    found, is_at_end = await _failures(service, appid, crawlid, cursor)
    response = Response(as_csv(_FAILURE, [record["value"] for record in found.records]))
    response.headers["Content-Type"] = "text/csv; charset=utf-8"
    response.headers["Content-Disposition"] = 'attachment; filename="failures.csv"'
    if not is_at_end:
        response.headers["X-Next-Cursor"] = found.cursor
    return response


@router.get("/rejected")
async def rejected(service: TheService) -> Response:
    """What took no effect lately."""
    found, _ = await _read(service, "rejected", Wanted(), None)
    return render(
        "records.html",
        "/ui/rejected",
        heading="Rejected",
        columns=("reason", "errors", "topic", "partition", "offset"),
        records=list(reversed(found.records)),
        next_path=None,
    )


@router.get("/domains")
async def domains(service: TheService) -> Response:
    """The rules of politeness, and forms that change them."""
    table = await service.editor.read()
    return render(
        "domains.html",
        "/ui/domains",
        rules=[("default", table.default), *sorted(table.rules.items())],
        blacklist=table.blacklist,
        blocked=sorted(table.blacklist - table.rules.keys()),
        edits=_EDITS,
    )


@router.get("/submit")
async def submit() -> Response:
    """A form that says what is wrong while one types."""
    return render("submit.html", "/ui/submit", fresh_id=uuid4().hex[:12])


def as_csv(columns: Sequence[str], rows: Sequence[Any]) -> str:
    """A table whose first row names its columns; no cell is a formula."""
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(columns)
    table.writerows([csv_cell(row.get(name)) for name in columns] for row in rows)
    return text.getvalue()


async def _failures(
    service: Service, appid: str, crawlid: str, cursor: str | None
) -> tuple[Page, bool]:
    return await _read(service, "events", Wanted(appid, crawlid, "page_failed"), cursor)


async def _read(
    service: Service, name: Name, wanted: Wanted, cursor: str | None
) -> tuple[Page, bool]:
    async with service.pages:
        return await read_page(service, name, wanted, cursor=cursor, limit=SHOWN)


def _latest(found: Sequence[CrawlState]) -> Sequence[CrawlState]:
    return sorted(found, key=lambda one: one.last_activity, reverse=True)
