"""``/v2``: schedules, which feed their seeds repeatedly."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import uuid4

import orjson
from fastapi import APIRouter, Body, Path, Response

from crawlstream.model.recurring.schedule import ScheduleState
from crawlstream.model.request import ScheduleRequest
from crawlstream.wire import jsontext, requests, views
from rest_service.http.access import Client
from rest_service.http.audit import audited
from rest_service.http.envelope import RequestRefused, success
from rest_service.http.hiding import hide_seeds
from rest_service.http.openapi import polled
from rest_service.http.parameters import StrictRoute
from rest_service.service import Service, TheClient, TheService

router = APIRouter(prefix="/v2", tags=["schedules"], route_class=StrictRoute)

Steering = Literal["pause", "resume", "fire"]
_EXAMPLE = {
    "cron": "30 2 * * *",
    "zone": "Europe/Berlin",
    "crawl": {"crawlid": "news-{at}", "maxdepth": 1},
    "seeds": ["https://example.com"],
}
Definition = Annotated[dict[str, Any], Body(examples=[_EXAMPLE])]


AppId = Annotated[str, Path(min_length=3, max_length=40)]
Name = Annotated[str, Path(min_length=1, max_length=40)]


@router.get("/schedules", summary="List schedules")
async def schedules(service: TheService, client: TheClient, appid: str | None = None) -> Response:
    """Schedules, by application and name: the next firing of each, and its history so far."""
    if appid is not None:
        client.check(appid)
    found = await service.frontier.schedules.all(appid)
    now = int(time.time())
    return success(
        [_shown(one, client, now) for one in found if client.may_see(one.schedule.appid)]
    )


@router.get("/schedules/{appid}/{name}", summary="One schedule")
async def schedule(service: TheService, client: TheClient, appid: AppId, name: Name) -> Response:
    """State of a schedule."""
    client.check(appid)
    found = await service.frontier.schedules.one(appid, name)
    if found is None:
        raise RequestRefused(404, "No such schedule found.", code="unknown_schedule")
    return success(_shown(found, client, int(time.time())))


def _shown(state: ScheduleState, client: Client, now: int) -> views.View:
    """Return a schedule as a client may see it."""
    view = views.schedule(state, now)
    return view if client.sees_secrets else hide_seeds(view)


@router.put("/schedules/{appid}/{name}", summary="Create or replace a schedule", responses=polled())
async def put(
    service: TheService, client: TheClient, appid: AppId, name: Name, *, definition: Definition
) -> Response:
    """Set a schedule; ``data`` is its new state.

    The body has the fields of a schedule request (`cron`, `crawl`, `seeds` …) without its names.
    """
    if clash := sorted(definition.keys() & {"appid", "schedule", "uuid", "do"}):
        raise RequestRefused(422, f"Not allowed in the body: {', '.join(clash)}.", code="invalid")
    with audited(client, "set-schedule", appid=appid, schedule=name):
        return await _ask(
            service, client, {"appid": appid, "schedule": name, "do": "set"}, definition
        )


@router.delete("/schedules/{appid}/{name}", summary="Remove a schedule", responses=polled())
async def remove(service: TheService, client: TheClient, appid: AppId, name: Name) -> Response:
    """Remove a schedule; the crawls that it has fed continue."""
    with audited(client, "remove-schedule", appid=appid, schedule=name):
        return await _ask(service, client, {"appid": appid, "schedule": name, "do": "remove"}, {})


@router.post(
    "/schedules/{appid}/{name}/{verb}",
    summary="Pause, resume or fire a schedule",
    responses=polled(),
)
async def steer(
    service: TheService, client: TheClient, appid: AppId, name: Name, *, verb: Steering
) -> Response:
    """Pause or resume a schedule, or have it fire once, now; ``data`` is its new state."""
    with audited(client, f"{verb}-schedule", appid=appid, schedule=name):
        return await _ask(service, client, {"appid": appid, "schedule": name, "do": verb}, {})


async def _ask(
    service: Service, client: Client, named: Mapping[str, str], more: Mapping[str, object]
) -> Response:
    client.check(named["appid"])
    uuid = uuid4().hex
    asked = jsontext.dumps({**more, **named, "uuid": uuid})
    # An invalid request is refused here, not on a topic that the client does not read.
    fed = requests.decode(asked, limits=service.limits)
    assert isinstance(fed, ScheduleRequest)
    await service.quota.admit_schedule(client, fed)
    reply = await service.request(client, asked, uuid)
    if reply is None:
        return success({"poll_id": uuid}, status=202)
    if problem := orjson.loads(reply).get("error"):
        is_unknown = problem == "no such schedule"
        raise RequestRefused(
            404 if is_unknown else 409,
            str(problem),
            code="unknown_schedule" if is_unknown else "too_many_schedules",
        )
    return success(orjson.Fragment(reply))
