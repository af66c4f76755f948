"""Scrapes as server-sent events: one, and batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any

from crawlstream.errors import Unavailable
from crawlstream.model.event import PageReply
from crawlstream.tasks import beside
from crawlstream_frontier.scrapes.scrape_names import comes_until
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused
from rest_service.http.streaming import event_of
from rest_service.metrics import SCRAPES
from rest_service.service import Service
from rest_service.topics.flights import Flight
from rest_service.v2.scrapes.answer import scraped
from rest_service.v2.scrapes.scrape_order import PageShape

_LATE_S = 5.0
"""Seconds after the end of its crawl within which the reply about a page arrives."""
_TRIES, _BETWEEN_S = 3, 1.0
"""Attempts to make the formats of a page while this process is busy."""

Reply = tuple[int, PageReply | None]
"""Number of a scrape, and its reply; None: it has not come in time."""


async def events_of_one(
    service: Service, client: Client, flight: Flight, shape: PageShape
) -> AsyncGenerator[bytes, None]:
    """Yield ``queued``, ``fetched`` and ``done`` of a scrape, or ``late`` if no page comes."""
    yield event_of({"id": flight.id, "earliest": flight.earliest}, name="queued", id_=flight.id)
    left_s = flight.expires + _LATE_S - time.time()
    reply = await service.pages_replied.wait(flight.id, left_s)
    if reply and reply.is_result:
        seen = {"id": reply.uuid, "status_code": reply.status_code, "mime": reply.mime}
        yield event_of(seen, name="fetched")
    async with AsyncExitStack() as held:
        data = await data_of(service, client, reply, shape, held=held) if reply else None
        SCRAPES.labels(data["state"] if data else "late").inc()
        late = {"id": flight.id, "state": "in_flight"}
        yield event_of(data, name="done") if data else event_of(late, name="late")


async def events_of_batch(
    service: Service,
    client: Client,
    ids: Sequence[str],
    shape_of: Callable[[int], PageShape],
    *,
    seen: int = 0,
) -> AsyncGenerator[bytes, None]:
    """Yield ``page`` for each scrape of a batch as its page comes, then ``end``.

    ``seen`` has the bits of the numbers that the client has; the id of an event has them, too.
    """
    late = list[str]()
    async with aclosing(_arrivals(service, ids, seen)) as arrivals:
        async for number, reply in arrivals:
            if reply is None or not client.may_see(reply.crawl.appid):
                late.append(ids[number])
                continue
            async with AsyncExitStack() as held:
                data = await data_of(service, client, reply, shape_of(number), held=held)
                if data is None:
                    late.append(ids[number])
                    continue
                SCRAPES.labels(data["state"]).inc()
                seen |= 1 << number
                yield event_of(data, name="page", id_=f"{seen:x}")
    yield event_of({"pages": seen.bit_count(), "late": late}, name="end", id_=f"{seen:x}")


async def _arrivals(service: Service, ids: Sequence[str], seen: int) -> AsyncGenerator[Reply, None]:
    """Yield the replies to scrapes, but for those that are seen, in order of their arrival."""
    arrived: asyncio.Queue[Reply] = asyncio.Queue()
    left = [number for number in range(len(ids)) if not seen >> number & 1]

    async def wait(number: int) -> None:
        left_s = comes_until(ids[number]) + _LATE_S - time.time()
        await arrived.put((number, await service.pages_replied.wait(ids[number], left_s)))

    async with beside(*map(wait, left)):
        for _ in left:
            yield await arrived.get()


async def data_of(
    service: Service,
    client: Client,
    reply: PageReply,
    shape: PageShape,
    *,
    held: AsyncExitStack,
) -> dict[str, Any] | None:
    """Return the data of an answer; None: this process is too busy, or Kafka does not answer.

    An event has no headers: ``traceparent`` is one of its fields, if the page is sampled.
    """
    for tried in range(_TRIES):
        await asyncio.sleep(_BETWEEN_S if tried else 0)
        try:
            async with AsyncExitStack() as own:
                headers: dict[str, str] = {}
                data = await scraped(service, client, reply, shape, held=own, headers=headers)
                held.push_async_exit(own.pop_all())
                return {**data, **headers}
        except (RequestRefused, Unavailable):
            continue
    return None
