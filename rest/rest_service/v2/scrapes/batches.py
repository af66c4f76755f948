"""``/v2/scrape/batch``: many URLs now, and their pages as they come."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Request, Response

from crawlstream.wire import jsontext
from crawlstream_frontier.scrapes.scrape_names import MOST_OF_BATCH, ids_of_batch, may_come
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused, success
from rest_service.http.inputs import media_type
from rest_service.http.openapi import also_events
from rest_service.http.parameters import StrictRoute
from rest_service.http.streaming import EVENTS, event_of
from rest_service.service import Service, TheClient, TheService
from rest_service.topics.seeds import NDJSON
from rest_service.v2.scrapes.batch import ScrapeBatch, begin_batch, read_orders
from rest_service.v2.scrapes.events import data_of, events_of_batch
from rest_service.v2.scrapes.scrape_order import ScrapeOrder
from rest_service.v2.scrapes.shapes import MaxChars, Named, shape_of

router = APIRouter(prefix="/v2", tags=["scrape"], route_class=StrictRoute)

_ONE = {"url": "https://example.com/"}
_LIST = {"type": "array", "minItems": 1, "maxItems": MOST_OF_BATCH}
_BODIES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {**_LIST, "items": ScrapeOrder.model_json_schema()},
                "examples": {"two": {"value": [_ONE, {**_ONE, "formats": ["links"]}]}},
            },
            **{kind: {"example": jsontext.dumps(_ONE).decode()} for kind in sorted(NDJSON)},
        },
    }
}
_SEEN = re.compile(r"[0-9a-f]{1,250}")

BatchId = Annotated[
    str,
    Path(min_length=1, max_length=60, examples=["2611291030-a3f19c-2-9f1c27d05b6e4a83-p250"]),
]


@router.post(
    "/scrape/batch",
    status_code=202,
    summary="Scrape many URLs",
    openapi_extra=_BODIES,
    responses=also_events(),
)
async def scrape_batch(request: Request, service: TheService, client: TheClient) -> Response:
    """Fetch up to 1000 URLs now; the body is a list of scrapes, or has one in each line.

    202: ``scrapes`` has, for each of them, the ``id`` or why it was refused. With ``Accept:
    text/event-stream``: an event ``batch`` with this, ``page`` for each page as it comes, and
    ``end``.
    """
    is_stream = EVENTS in request.headers.get("accept", "")
    if is_stream:
        service.streams.check_room(client)
    body = await request.body()
    orders = await asyncio.to_thread(read_orders, body, media_type(request))
    batch = await begin_batch(orders, service, client)
    if is_stream:
        return service.streams.events(client, _events(service, client, batch))
    answer = success(batch.value, status=202)
    if batch.id:
        answer.headers["Location"] = f"/v2/scrape/batch/{batch.id}"
    return answer


@router.get("/scrape/batch/{id}", summary="The pages of a batch", responses=also_events())
async def batch_of(
    request: Request,
    service: TheService,
    client: TheClient,
    *,
    id: BatchId,  # noqa: A002  the name of the path's part
    formats: Named = "markdown,metadata",
    main: bool = True,
    max_chars: MaxChars = 200_000,
    last_event_id: Annotated[str, Header(max_length=1000)] = "0",
) -> Response:
    """Return which pages of a batch have come, for an hour; any process can.

    With ``Accept: text/event-stream``: the pages, also those to come, as events. ``Last-Event-ID``
    leaves out those that the client has seen.
    """
    ids = ids_of_batch(id)
    if not ids or not may_come(ids[0]) or _is_foreign(service, client, ids):
        sentence = "No such batch found: its pages are kept for an hour."
        raise RequestRefused(404, sentence, code="no_such_scrape")
    if EVENTS not in request.headers.get("accept", ""):
        return success(await _states(service, client, id, ids))
    if not _SEEN.fullmatch(last_event_id):
        sentence = "Last-Event-ID is not the id of an event of a batch: leave it out for all pages."
        raise RequestRefused(422, sentence, code="invalid")
    shape = shape_of(formats, main=main, max_chars=max_chars)
    seen = int(last_event_id, 16) & ((1 << len(ids)) - 1)
    return service.streams.events(
        client, events_of_batch(service, client, ids, lambda _: shape, seen=seen)
    )


def _is_foreign(service: Service, client: Client, ids: Sequence[str]) -> bool:
    flight = service.flights.get(ids[0])
    return flight is not None and not client.may_see(flight.appid)


async def _states(service: Service, client: Client, id_: str, ids: Sequence[str]) -> dict[str, Any]:
    states = dict.fromkeys(ids, "in_flight")
    for one in ids:
        reply = await service.pages_replied.wait(one, 0)
        if reply and client.may_see(reply.crawl.appid):
            states[one] = "done" if reply.is_result else "failed"
    told = [{"id": one, "state": state} for one, state in states.items()]
    return {"id": id_, "complete": "in_flight" not in states.values(), "scrapes": told}


async def _events(
    service: Service, client: Client, batch: ScrapeBatch
) -> AsyncGenerator[bytes, None]:
    """Yield the batch, pages that were there already, and those that come."""
    yield event_of(batch.value, name="batch", id_="0")
    for reply, shape in batch.recents:
        async with AsyncExitStack() as held:
            if data := await data_of(service, client, reply, shape, held=held):
                yield event_of({**data, "source": "recent"}, name="page")
    ids = [flight.id for flight in batch.flights]
    pages = events_of_batch(service, client, ids, batch.shapes.__getitem__)
    async with aclosing(pages):
        async for event in pages:
            yield event
