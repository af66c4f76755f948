"""Screens about crawls: all of them, one in depth, its failures, its pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.request import Steering
from crawlstream.model.state import ENDED, UNDER_WAY, CrawlState
from crawlstream.stats.domains import read_domains
from rest_service.dashboard.cluster import latest
from rest_service.dashboard.live import Screen, Values, show
from rest_service.dashboard.problems import REDIS_AWAY, absences, spiders_of
from rest_service.dashboard.processes import living_processes
from rest_service.dashboard.render import SHOWN, crawl_path, render
from rest_service.http.access import Client
from rest_service.service import Service, TheClient, TheCrawl, TheService
from rest_service.v2.crawls import crawl_state
from rest_service.v2.reading import Page, one_record, read_page, start_of, wanted_by

_LEDGER = ("admitted", "done", "failed", "redirected", "stopped", "expired")
_WAITS = ("queued", "delayed", "held", "spilled")
_ALWAYS = ("admitted", "done", "failed", "queued", "held")
"""Of these a zero is shown, too."""
_BODY_SHOWN = 100_000
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
    appid: Annotated[str, Query()] = "",
    state: Annotated[str, Query()] = "",
) -> Response:
    """Crawls with progress and ledger."""

    async def fill() -> Values:
        await service.sampler.fresh()
        found = latest(
            [
                one
                for one in service.sampler.crawls
                if state in {"", one.state}
                and appid in {"", one.crawl.appid}
                and client.may_see(one.crawl.appid)
            ]
        )
        spiders = spiders_of(await living_processes(service))
        problems = [REDIS_AWAY] if service.sampler.is_blind else absences(found, spiders)
        values = {"total": len(found), "crawls": found[:SHOWN], "problems": problems}
        values["spiders"] = spiders
        return {"appid": appid, "state": state, "states": (*UNDER_WAY, *ENDED), **values}

    return await show(request, service, Screen("crawls.html", "/ui/crawls", fill, every_s=2))


@router.get("/crawl")
async def crawl(
    request: Request, service: TheService, client: TheClient, key: TheCrawl
) -> Response:
    """One crawl in depth."""

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
        # It counts what all applications ask.
        traffic = {}
    spiders = spiders_of(await living_processes(service))
    return {
        "one": one,
        "spiders": spiders,
        "problems": [one._replace(path="") for one in absences([one], spiders)],
        "ledger": [
            (name, count)
            for name in (*_LEDGER, *_WAITS)
            if (count := getattr(one, name)) or name in _ALWAYS
        ],
        "domains": [(domain, traffic.get(domain.domain)) for domain in domains],
        "left": len(one.domains) - len(domains),
        "steering": _BUTTONS.get(one.state, ()),
    }


@dataclass(slots=True)
class Reason:
    """Why pages of a crawl failed: how many in all, and those that are shown."""

    count: int = 0
    pages: list[Mapping[str, Any]] = field(default_factory=list)


@router.get("/crawl/failures")
async def failures(
    service: TheService, client: TheClient, key: TheCrawl, cursor: str | None = None
) -> Response:
    """Pages of a crawl that failed, by reason."""
    one = await crawl_state(service, key)
    found, is_at_end = await _read(
        service, client, "events", one=one, cursor=cursor, event="page_failed"
    )
    reasons: dict[str, Reason] = defaultdict(Reason)
    for reason, count in one.failed_by_reason.items():
        reasons[reason].count = count
    for record in found.records:
        value: Any = record["value"]
        reasons[str(value.get("reason"))].pages.append(value)
    ordered = sorted(reasons.items(), key=lambda item: item[1].count, reverse=True)
    return render(
        "failures.html",
        "/ui/crawls",
        client=client,
        one=one,
        reasons=ordered,
        next_path=None if is_at_end else crawl_path(one, "/ui/crawl/failures", cursor=found.cursor),
        csv_path=export_path(one, "events", "csv", event="page_failed"),
    )


@router.get("/crawl/pages")
async def pages(
    service: TheService, client: TheClient, key: TheCrawl, cursor: str | None = None
) -> Response:
    """Pages of a crawl as they came, in the order of their coming."""
    one = await crawl_state(service, key)
    found, is_at_end = await _read(service, client, "results", one=one, cursor=cursor)
    return render(
        "pages.html",
        "/ui/crawls",
        client=client,
        one=one,
        records=found.records,
        next_path=None if is_at_end else crawl_path(one, "/ui/crawl/pages", cursor=found.cursor),
        jsonl_path=export_path(one, "results", "jsonl"),
        csv_path=export_path(one, "results", "csv"),
    )


@router.get("/page")
async def page(service: TheService, client: TheClient, partition: int, offset: int) -> Response:
    """One page as it came: its fields and its body, as text."""
    record = await one_record(service, client, "results", (partition, offset))
    value: dict[str, Any] = record["value"]  # type: ignore[assignment]
    body = str(value.pop("body", ""))
    return render(
        "page.html",
        "/ui/crawls",
        client=client,
        fields=sorted(value.items()),
        body=body[:_BODY_SHOWN],
        is_cut=len(body) > _BODY_SHOWN,
    )


def export_path(one: CrawlState, name: str, form: str, **more: str) -> str:
    """The address of a file with everything that a topic has of a crawl."""
    return crawl_path(one, f"/v2/{name}/export", format=form, **more)


async def _read(
    service: Service,
    client: Client,
    name: Any,
    *,
    one: CrawlState,
    cursor: str | None,
    event: str | None = None,
) -> tuple[Page, bool]:
    key = one.crawl
    wanted = wanted_by(
        client, appid=key.appid, crawlid=key.crawlid, spiderid=key.spiderid, event=event
    )
    async with service.pages.of(client.name):
        start = None if cursor else await start_of(service, name, one)
        return await read_page(service, name, wanted, cursor=cursor, limit=SHOWN, start=start)
