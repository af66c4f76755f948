"""Screens about the runs of a crawl: the list, the schedules that feed it, two runs compared."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from fastapi import APIRouter, Response

from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.recurring.schedule import AT, Schedule, ScheduleState
from crawlstream.model.recurring.times import due_at, times_of
from rest_service.dashboard.render import SHOWN, path_of, render
from rest_service.http.access import Client
from rest_service.service import Service, TheClient, TheCrawl, TheService
from rest_service.v2.ordered import read_ordered
from rest_service.v2.reading import ends_of, wanted_by
from rest_service.v2.runs import ThePair, comparison, history

_TITLES = (
    ("new", "New pages"),
    ("gone", "Gone pages"),
    ("status", "Other status"),
    ("content", "Other content"),
)
_FIRINGS = 10
"""Past firings that are shown."""
_NEXT = 3
"""Future firings that are shown."""
_UNTOLD = {"at": 0, "seeds": 0, "late_s": 0, "reason": "", "count": 1, "crawlid": ""}
"""Defaults for values that events of some kinds do not have."""

router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/crawl/runs")
async def runs(service: TheService, client: TheClient, key: TheCrawl) -> Response:
    """Show all runs of a crawl, the schedules that feed it, and a choice of two runs to compare."""
    found = await history(service, client, key)
    schedules = await _schedules(service, key)
    fired = await _firings(service, client, {one.schedule.key for one in schedules})
    return render(
        "runs.html",
        "/ui/crawls",
        client=client,
        key=key,
        history=found,
        schedules=[(one, _next(one)) for one in schedules],
        firings=fired,
        earlier=_earlier(fired, key) if len(found.runs) == 1 else "",
    )


def feeds(schedule: Schedule, key: CrawlKey) -> bool:
    """Return whether firings of a schedule feed a crawl of this name."""
    spiderid = schedule.crawl.get("spiderid", "link")
    named = str(schedule.crawl.get("crawlid", "")).split(AT)
    pattern = r"\d{8}T\d{4}Z".join(map(re.escape, named))
    is_of_it = (schedule.appid, spiderid) == (key.appid, key.spiderid)
    return is_of_it and re.fullmatch(pattern, key.crawlid) is not None


async def _schedules(service: Service, key: CrawlKey) -> Sequence[ScheduleState]:
    """Return the schedules that feed a crawl; none if Redis is unavailable."""
    try:
        found = await service.frontier.schedules.all(key.appid)
    except CrawlstreamError:
        return ()
    return [one for one in found if one.last_crawl == key or feeds(one.schedule, key)][:SHOWN]


def _next(state: ScheduleState) -> Sequence[int]:
    """Return when the next firings are due; none while the schedule is paused."""
    if state.is_paused:
        return ()
    after = max(state.last, state.since, int(time.time()))
    return [due_at(state.schedule, at) for at in islice(times_of(state.schedule, after), _NEXT)]


async def _firings(
    service: Service, client: Client, names: set[tuple[str, str]]
) -> Sequence[Mapping[str, Any]]:
    """Return the latest firings of these schedules, skipped ones included, the newest first."""
    if not names:
        return ()

    def fits(value: Mapping[str, Any]) -> bool:
        is_told = str(value.get("event")).startswith("schedule_")
        return is_told and (value.get("appid"), value.get("schedule")) in names

    wanted = wanted_by(client)
    async with service.pages.of(client.name):
        ends = await ends_of(service, "events")
        bounds = dict.fromkeys(ends, 0)
        found = await read_ordered(
            service, "events", wanted, at=ends, bounds=bounds, limit=_FIRINGS, fits=fits
        )
    values: Any = [record["value"] for record in found.records]
    return [{**_UNTOLD, **value, "path": _path_to(value)} for value in values]


def _path_to(event: Mapping[str, Any]) -> str:
    """Return the screen of the crawl that a firing has fed; "" if it has fed none."""
    named = [str(event.get(name) or "") for name in ("spiderid", "appid", "crawlid")]
    return path_of(CrawlKey(*named)) if named[-1] else ""


def _earlier(firings: Sequence[Mapping[str, Any]], key: CrawlKey) -> str:
    """Return the crawl of the firing before that of a crawl; "" if none is known."""
    crawls = [str(one["crawlid"]) for one in firings if one["crawlid"]]
    older = crawls[crawls.index(key.crawlid) + 1 :] if key.crawlid in crawls else []
    return next((one for one in older if one != key.crawlid), "")


@router.get("/crawl/compare")
async def compared(service: TheService, client: TheClient, pair: ThePair) -> Response:
    """Show the changes between two runs."""
    found = await comparison(service, client, pair, listed=SHOWN)
    return render(
        "compare.html", "/ui/crawls", client=client, key=pair.key, found=found, titles=_TITLES
    )
