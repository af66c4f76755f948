"""``max_age``: a page of the last hour instead of a new one."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from typing import Any

from crawlstream.errors import Unavailable
from crawlstream.model.event import PageReply
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused
from rest_service.service import Service
from rest_service.topics.recents import recent_key
from rest_service.v2.scrapes.admission import ScrapePlan
from rest_service.v2.scrapes.answer import scraped
from rest_service.v2.scrapes.scrape_order import ScrapeOrder


def recent_reply(plan: ScrapePlan, service: Service) -> PageReply | None:
    """Return the reply about a page that is young enough for a scrape; None: there is none."""
    if not plan.order.max_age:
        return None
    key = recent_key(plan.appid, plan.request.url, plan.order.kind)
    return service.pages_replied.recents.find(key, time.time() - plan.order.max_age)


async def recent_page(
    order: ScrapeOrder, service: Service, client: Client, *, held: AsyncExitStack
) -> dict[str, Any] | None:
    """Return the data of an answer with a recent page; None: it has to be fetched.

    ``held`` gets what the answer occupies. RequestRefused, InvalidRequest.
    """
    if not order.max_age:
        return None
    name = service.scrape_names.new(order.deadline)
    reply = recent_reply(ScrapePlan.of(order, name, service, client), service)
    if reply is None:
        return None
    try:
        async with AsyncExitStack() as own:
            data = await scraped(service, client, reply, order.shape, held=own)
            if "timings_ms" not in data or data["age_s"] > order.max_age:
                # Kafka has deleted the record, or the page was old when its reply came.
                return None
            held.push_async_exit(own.pop_all())
    except (RequestRefused, Unavailable):
        return None
    del data["timings_ms"]["site"]
    return {**data, "source": "recent"}
