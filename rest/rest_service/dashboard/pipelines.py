"""Screens about pipelines: their states, and the runs that a pipeline has stored."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from rest_service.dashboard.live import Screen, Values, show
from rest_service.dashboard.quality import by_field, missed
from rest_service.dashboard.render import render
from rest_service.service import TheClient, TheService
from rest_service.v2.living import living_processes
from rest_service.v2.pipeline_states import states_of
from rest_service.v2.pipelines import deliveries

_HERE = "/ui/pipelines"

router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/pipelines")
async def pipelines(request: Request, service: TheService) -> Response:
    """Show all pipelines with a running process, and the last runs that others have stored."""

    async def fill() -> Values:
        found = states_of(await living_processes(service) or ())
        last = await service.last_runs.read(service.kafka, service.topics.events)
        names = {one.name for one in found}
        ended = [run for name, run in sorted(last.items()) if name not in names]
        return {"pipelines": found, "ended": ended, "last": last, "missed": missed}

    return await show(request, service, Screen("pipelines.html", _HERE, fill, every_s=2))


@router.get("/pipelines/runs")
async def runs(
    service: TheService,
    client: TheClient,
    name: Annotated[str, Query(min_length=1, max_length=40)],
) -> Response:
    """Show the runs that a pipeline has stored: their accounts and the quality of their fields."""
    found = await deliveries(service, client, name)
    values: Values = {"name": name, "found": found, "by_field": by_field, "missed": missed}
    return render("pipeline_runs.html", _HERE, client=client, **values)
