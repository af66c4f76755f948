"""The screen about schedules: their next firings, and skipped ones."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response

from crawlstream.wire import views
from rest_service.dashboard.outcome import outcome_of
from rest_service.dashboard.render import SHOWN, render
from rest_service.service import TheClient, TheService

router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/schedules")
async def schedules(request: Request, service: TheService, client: TheClient) -> Response:
    """Show all schedules that the client may see."""
    found = await service.frontier.schedules.all()
    seen = [one for one in found if client.may_see(one.schedule.appid)]
    now = int(time.time())
    rows = [(one, views.schedule(one, now)) for one in seen[:SHOWN]]
    return render(
        "schedules.html",
        "/ui/schedules",
        client=client,
        rows=rows,
        left=len(seen) - len(rows),
        said=outcome_of(request),
    )
