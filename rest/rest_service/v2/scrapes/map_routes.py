"""``/v2/map``: the URLs of a site, by its sitemaps and links, and by the frontier."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Query, Request, Response

from crawlstream.errors import KafkaUnavailable
from crawlstream.wire import jsontext
from rest_service.http.audit import audited
from rest_service.http.envelope import RequestRefused, success
from rest_service.http.openapi import also_lines
from rest_service.http.parameters import StrictRoute
from rest_service.service import TheClient, TheService
from rest_service.topics.maps import SiteMap
from rest_service.v2.scrapes.admission import ScrapePlan, check_workers
from rest_service.v2.scrapes.map_order import MapOrder
from rest_service.v2.scrapes.mapping import SiteMapping

router = APIRouter(prefix="/v2", tags=["scrape"], route_class=StrictRoute)

LINES = "application/x-ndjson"
_LATE = "The list is not made yet."
_RETRY_S = 2
_URL_LOGGED = 200

MapId = Annotated[str, Path(min_length=1, max_length=40, examples=[f"map-{32 * '0'}"])]
Wait = Annotated[float, Query(ge=0, le=60, description="Seconds to wait for the list.")]


@router.post("/map", summary="List the URLs of a site", responses=also_lines(_LATE))
async def site_map(
    order: MapOrder, request: Request, service: TheService, client: TheClient
) -> Response:
    """Return the URLs of a site, those that have changed last first: of its sitemaps and of a page.

    Its files are scraped, within the limits of the site; with the source ``frontier``, pages that
    wait for their request are listed, too. 200: ``urls``, ``total``, and whether the
    list is ``complete``; with ``Accept: application/x-ndjson`` a URL in each line. 202: it is not
    made within ``wait`` seconds; ``Location`` is where it will be, at this process.
    """
    order.check()
    scrape = order.scrape_of(order.url, order.appid)
    plan = ScrapePlan.of(scrape, service.scrape_names.new(scrape.deadline), service, client)
    if order.scrapes:
        await check_workers(service, plan.request)
    service.maps.check_room(client.name)
    with audited(client, "map", appid=plan.appid, url=plan.request.url[:_URL_LOGGED]):
        if order.scrapes and not service.reach.kafka:
            raise KafkaUnavailable
        lists_waiting = "frontier" in order.sources
        appids = order.applications(client) if lists_waiting else frozenset({plan.appid})
        making = SiteMapping(order, plan, service, client).run()
        one = service.maps.begin(client.name, appids, making)
    return await _answer(one, order.wait, request)


@router.get("/map/{id}", summary="The URLs of a site, later", responses=also_lines(_LATE))
async def site_map_of(
    request: Request,
    service: TheService,
    client: TheClient,
    *,
    id: MapId,  # noqa: A002  the name of the path's part
    wait: Wait = 0,
) -> Response:
    """Return the list as ``POST /v2/map`` does, for an hour; only the process that makes it can."""
    one = service.maps.get(id)
    if one is None or not client.may_see_all(one.appids):
        raise RequestRefused(
            404,
            "No such map found at this process: repeat the call; files that were read in the last"
            " hour are not requested again.",
            code="no_such_map",
        )
    return await _answer(one, wait, request)


async def _answer(one: SiteMap, wait_s: float, request: Request) -> Response:
    made = await one.wait(wait_s)
    if made is None:
        later = success({"id": one.id, "state": "in_progress"}, status=202)
        later.headers["Location"] = f"/v2/map/{one.id}"
        later.headers["Retry-After"] = str(_RETRY_S)
        return later
    if LINES in request.headers.get("accept", ""):
        return Response(await asyncio.to_thread(_lines, made), media_type=LINES)
    # The list is JSON already, up to some megabytes: it is not decoded to add its id.
    head = jsontext.dumps({"id": one.id, "state": "done"})
    return success(orjson.Fragment(head[:-1] + b"," + made[1:]))


def _lines(made: bytes) -> bytes:
    value: Any = jsontext.loads(made)
    return b"".join(jsontext.dumps(one) + b"\n" for one in value["urls"])
