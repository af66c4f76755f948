"""``/v2/scrape``: one URL now, as Markdown or in another format."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from crawlstream.errors import CrawlstreamError, Unavailable
from crawlstream_frontier.scrapes.scrape_names import may_come
from rest_service.http.audit import audited
from rest_service.http.envelope import RequestRefused, success
from rest_service.http.openapi import also_events, later, traced
from rest_service.http.parameters import StrictRoute
from rest_service.http.streaming import EVENTS, HeldAnswer, event_of
from rest_service.metrics import SCRAPE_SECONDS, SCRAPES, WAITING
from rest_service.service import Service, TheClient, TheService
from rest_service.topics.flights import Flight
from rest_service.v2.scrapes.admission import begin
from rest_service.v2.scrapes.answer import scraped
from rest_service.v2.scrapes.events import events_of_one
from rest_service.v2.scrapes.recent import recent_page
from rest_service.v2.scrapes.scrape_order import ScrapeOrder
from rest_service.v2.scrapes.shapes import MaxChars, Named, shape_of

router = APIRouter(prefix="/v2", tags=["scrape"], route_class=StrictRoute)

Id = Annotated[
    str, Path(min_length=1, max_length=40, examples=["2611291030-a3f19c-2-9f1c27d05b6e4a83"])
]
Wait = Annotated[float, Query(ge=0, le=60, description="Seconds to wait for the page.")]

_LATE = "The page has not come yet."
_LATER = traced(later(_LATE))
_EVENTS_OR_LATER = traced(also_events(later_description=_LATE))


@router.post("/scrape", summary="Scrape a URL", responses=_EVENTS_OR_LATER)
async def scrape(
    order: ScrapeOrder, request: Request, service: TheService, client: TheClient
) -> Response:
    """Fetch one URL now, and return its page in the wanted formats.

    200: ``data`` has the page, or ``state`` ``failed`` and a ``reason``; a page with any status of
    the site is ``done``. 202: it has not come within ``wait`` seconds; ``Location`` is where it
    will be. With ``Accept: text/event-stream``: events ``queued``, ``fetched`` and ``done``.
    """
    if EVENTS in request.headers.get("accept", ""):
        return await _stream(order, service, client)
    started = time.monotonic()
    async with AsyncExitStack() as held:
        with _counted():
            if recent := await recent_page(order, service, client, held=held):
                recent["timings_ms"]["total"] = _ms_since(started)
                return _done(recent, held.pop_all(), outcome="recent")
            flight = await begin(order, service, client)
        return await _answer_of(flight, order, service, client, started=started, held=held)


async def _answer_of(
    flight: Flight,
    order: ScrapeOrder,
    service: Service,
    client: TheClient,
    *,
    started: float,
    held: AsyncExitStack,
) -> Response:
    """Return the page of a scrape, or where it will be if it does not come in time."""
    door_ms = _ms_since(started)
    with WAITING.track_inprogress():
        left_s = order.wait - (time.monotonic() - started)
        reply = await service.pages_replied.wait(flight.id, left_s)
    if reply is None:
        return _later(flight.id, flight)
    headers: dict[str, str] = {}
    try:
        data = await scraped(service, client, reply, order.shape, held=held, headers=headers)
    except (RequestRefused, Unavailable):
        # The page is there, and can be fetched by its id when there is time for it.
        return _later(flight.id, flight)
    timings = data.setdefault("timings_ms", {})
    timings |= {"door": door_ms, "total": _ms_since(started)}
    SCRAPE_SECONDS.observe(max(0, timings["total"] - (timings.get("site") or 0)) / 1000)
    return _done(data, held.pop_all(), headers=headers)


async def _stream(order: ScrapeOrder, service: Service, client: TheClient) -> Response:
    """Return the events of a scrape; its ``wait`` does not count."""
    order = order.model_copy(update={"wait": 0})
    with _counted():
        service.streams.check_room(client)
        async with AsyncExitStack() as held:
            if recent := await recent_page(order, service, client, held=held):
                SCRAPES.labels("recent").inc()
                done = Response(event_of(recent, name="done"), media_type=EVENTS)
                return HeldAnswer(done, held.pop_all())
        flight = await begin(order, service, client)
    return service.streams.events(client, events_of_one(service, client, flight, order.shape))


@router.get("/scrape/{id}", summary="The page of a scrape", responses=_LATER)
async def page_of(
    service: TheService,
    client: TheClient,
    *,
    id: Id,  # noqa: A002  the name of the path's part
    wait: Wait = 0,
    formats: Named = "markdown,metadata",
    main: bool = True,
    max_chars: MaxChars = 200_000,
) -> Response:
    """Return the page of a scrape as ``POST /v2/scrape`` does, for an hour; any process can."""
    shape = shape_of(formats, main=main, max_chars=max_chars)
    _check(service, client, id)
    with WAITING.track_inprogress():
        reply = await service.pages_replied.wait(id, wait)
    if reply is None:
        _check(service, client, id)
        return _later(id, service.flights.get(id))
    if not client.may_see(reply.crawl.appid):
        raise _unknown()
    async with AsyncExitStack() as held:
        headers: dict[str, str] = {}
        data = await scraped(service, client, reply, shape, held=held, headers=headers)
        return _done(data, held.pop_all(), headers=headers)


@router.delete("/scrape/{id}", summary="Give up a scrape")
async def give_up(service: TheService, client: TheClient, id: Id) -> Response:  # noqa: A002
    """Drop the answer of a scrape, also one that comes later; the page itself is still fetched.

    A scrape that equal requests share at this process is dropped by the last of them.
    """
    with audited(client, "drop-scrape", id=id):
        _check(service, client, id)
        reply = await service.pages_replied.wait(id, 0)
        if reply is not None and not client.may_see(reply.crawl.appid):
            raise _unknown()
        flight = service.flights.get(id)
        if flight is not None and flight.callers > 1:
            flight.callers -= 1
        else:
            service.flights.end(id)
            service.pages_replied.drop(id)
    return success({"id": id, "state": "dropped"})


def _check(service: Service, client: TheClient, id_: str) -> None:
    """Raise RequestRefused (404) if there is no such scrape of the client's applications."""
    flight = service.flights.get(id_)
    is_foreign = flight is not None and not client.may_see(flight.appid)
    if is_foreign or not may_come(id_) or service.pages_replied.is_dropped(id_):
        raise _unknown()


def _later(id_: str, flight: Flight | None) -> Response:
    """Answer that the page has not come yet; of a scrape of another process no more is known."""
    SCRAPES.labels("late").inc()
    earliest = flight.earliest if flight else None
    left_s = max(0.0, (earliest or 0) - time.time())
    state = "queued" if left_s else "in_flight"
    answer = success({"id": id_, "state": state, "earliest": earliest}, status=202)
    answer.headers["Location"] = f"/v2/scrape/{id_}"
    answer.headers["Retry-After"] = str(max(1, math.ceil(left_s)))
    return answer


def _done(
    data: dict[str, Any],
    held: AsyncExitStack,
    *,
    outcome: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer with a page, which is ``held`` until its client has read it."""
    SCRAPES.labels(outcome or data["state"]).inc()
    answer = HeldAnswer(success(data), held)
    answer.headers.update(headers or {})
    return answer


@contextmanager
def _counted() -> Iterator[None]:
    """Count a scrape that is not fed."""
    try:
        yield
    except CrawlstreamError:
        SCRAPES.labels("refused").inc()
        raise


def _unknown() -> RequestRefused:
    return RequestRefused(404, "No such scrape found.", code="no_such_scrape")


def _ms_since(started: float) -> int:
    return round(1000 * (time.monotonic() - started))
