"""A batch of scrapes: all are checked, then each is admitted at the door of its site."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from crawlstream.errors import InvalidRequest, KafkaUnavailable
from crawlstream.model.egress.render import lanes_of
from crawlstream.model.event import PageReply
from crawlstream.wire import jsontext
from crawlstream_frontier.scrapes.scrape_names import MOST_OF_BATCH, BatchName, ScrapeKind
from rest_service.http.access import Client
from rest_service.http.audit import audited
from rest_service.http.envelope import RequestRefused
from rest_service.http.inputs import parse_json
from rest_service.service import Service
from rest_service.topics.flights import Flight
from rest_service.topics.seeds import NDJSON
from rest_service.v2.scrapes.admission import ScrapePlan, admit, check_workers, feed
from rest_service.v2.scrapes.recent import recent_reply
from rest_service.v2.scrapes.scrape_order import PageShape, ScrapeOrder

_ERRORS_TOLD = 100
_BAD = "The request body is not valid."


@dataclass(slots=True)
class ScrapeBatch:
    """Scrapes of a batch: those that were admitted, and answers to all."""

    name: BatchName
    told: list[dict[str, Any]] = field(default_factory=list)
    """For each scrape: its URL, and its id or why it was refused."""
    recents: list[tuple[PageReply, PageShape]] = field(default_factory=list)
    """Pages that were there already."""
    shapes: list[PageShape] = field(default_factory=list)
    """Shapes of the scrapes that were admitted, by number."""
    flights: list[Flight] = field(default_factory=list)
    seeds: list[bytes] = field(default_factory=list)
    refusals: list[RequestRefused] = field(default_factory=list)
    by_equal: dict[Hashable, Flight] = field(default_factory=dict)

    @property
    def id(self) -> str | None:
        """Id of the batch; None if nothing had to be fed."""
        return self.name.id(len(self.flights)) if self.flights else None

    @property
    def value(self) -> dict[str, Any]:
        """The batch as it is answered."""
        return {"id": self.id, "scrapes": self.told}


def read_orders(body: bytes, kind: str) -> Sequence[ScrapeOrder]:
    """Return the scrapes of a body, a list or a line each; RequestRefused names the bad ones."""
    if kind in NDJSON:
        raws = [parse_json(line, _BAD) for line in body.splitlines() if line.strip()]
    elif kind == "application/json":
        value = parse_json(body, _BAD)
        raws = value if isinstance(value, list) else [value]
    else:
        named = ", ".join(["application/json", *sorted(NDJSON)])
        raise RequestRefused(
            415, f"Unsupported media type; supported: {named}.", code="bad_media_type"
        )
    if not 1 <= len(raws) <= MOST_OF_BATCH:
        raise RequestRefused(
            422, f"A batch must contain 1 to {MOST_OF_BATCH} scrapes.", code="invalid"
        )
    return _checked(raws)


def _checked(raws: Sequence[object]) -> Sequence[ScrapeOrder]:
    orders, problems = list[ScrapeOrder](), list[str]()
    for number, raw in enumerate(raws):
        try:
            # As JSON, so that the strict types of a body apply.
            orders.append(ScrapeOrder.model_validate_json(jsontext.dumps(raw)))
        except ValidationError as error:
            for one in error.errors(include_url=False, include_input=False):
                where = "".join(f".{part}" for part in one["loc"])
                problems.append(f"$[{number}]{where}: {one['msg']}")
    if problems:
        raise _none_accepted(problems, "invalid")
    return orders


async def begin_batch(
    orders: Sequence[ScrapeOrder], service: Service, client: Client
) -> ScrapeBatch:
    """Feed the seeds of a batch; scrapes that the doors of their sites refuse are left out.

    RequestRefused if one is not valid, or if none was admitted; nothing was fed then.
    KafkaUnavailable, RedisUnavailable.
    """
    name = service.scrape_names.batch(max(one.deadline for one in orders), _kind_of(orders))
    plans = await asyncio.to_thread(_plans, orders, name, service, client)
    for renders in {lanes_of("link", plan.order.wish): plan for plan in plans}.values():
        await check_workers(service, renders.request)
    service.extraction.warm()
    service.records.warm(service.topics.crawled)
    batch = ScrapeBatch(name)
    with audited(client, "scrape", scrapes=len(orders)):
        if not service.reach.kafka:
            raise KafkaUnavailable
        await service.quota.admit(client, len(orders))
        await _admit_all(batch, plans, service, client)
        if batch.seeds:
            await feed(service, client, batch.flights, batch.seeds)
    return batch


def _kind_of(orders: Sequence[ScrapeOrder]) -> ScrapeKind:
    kinds = {one.kind for one in orders}
    return kinds.pop() if len(kinds) == 1 else ScrapeKind.PRIVATE


def _plans(
    orders: Sequence[ScrapeOrder], name: BatchName, service: Service, client: Client
) -> Sequence[ScrapePlan]:
    plans, problems = list[ScrapePlan](), list[str]()
    for number, order in enumerate(orders):
        try:
            plans.append(ScrapePlan.of(order, name.item(number), service, client))
        except InvalidRequest as error:
            problems += [f"[{number}] {problem}" for problem in error.problems]
    if problems:
        raise _none_accepted(problems, "bad_request")
    return plans


async def _admit_all(
    batch: ScrapeBatch, plans: Sequence[ScrapePlan], service: Service, client: Client
) -> None:
    """Admit scrapes in their order, until all are tried; release them if that fails."""
    most = client.scrapes or MOST_OF_BATCH
    try:
        for plan in plans:
            told = await _admitted(batch, plan, service, client, most=most)
            batch.told.append({"url": plan.request.url, **told})
    except BaseException:
        for flight in batch.flights:
            service.flights.end(flight.id)
        raise
    if len(batch.refusals) == len(plans):
        raise batch.refusals[0]


async def _admitted(
    batch: ScrapeBatch,
    plan: ScrapePlan,
    service: Service,
    client: Client,
    *,
    most: int,
) -> dict[str, Any]:
    """Admit one scrape, unless there is a recent page or it is twice in the batch."""
    if recent := recent_reply(plan, service):
        batch.recents.append((recent, plan.order.shape))
        return {"id": recent.uuid, "state": "recent"}
    name = batch.name.item(len(batch.flights))
    equal = plan.order.equal(plan.request, name)
    flight = batch.by_equal.get(equal) if equal is not None else None
    if flight is None:
        try:
            flight, seed = await admit(plan, name, service, client, most=most)
        except RequestRefused as refused:
            batch.refusals.append(refused)
            return _refusal(refused)
        service.flights.add(flight)
        batch.flights.append(flight)
        batch.seeds.append(seed)
        batch.shapes.append(plan.order.shape)
        batch.by_equal[equal] = flight
    return {"id": flight.id, "state": "queued", "earliest": flight.earliest}


def _refusal(refused: RequestRefused) -> dict[str, Any]:
    told = {"state": "refused", "code": refused.details.get("code"), "message": str(refused)}
    if refused.status == 429:
        told["retry_after_s"] = round(refused.retry_after_s, 1)
    return told


def _none_accepted(problems: Sequence[str], code: str) -> RequestRefused:
    return RequestRefused(422, "No scrape was accepted.", code=code, errors=problems[:_ERRORS_TOLD])
