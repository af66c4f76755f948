"""``/v2``: crawls, from their seeds to their endings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any, Literal
from uuid import uuid4

import orjson
from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.egress.render import lanes_of
from crawlstream.model.request import LATEST, ActionRequest, Steering
from crawlstream.model.state import CrawlState
from crawlstream.model.url import host_of, unlikely_host
from crawlstream.model.words.condition import Spiders, absence
from crawlstream.wire import requests, views
from crawlstream_frontier.queries import MOST_NEXT
from crawlstream_frontier.scrapes.scrape_names import is_scrapes
from rest_service.http.access import Client
from rest_service.http.audit import audited
from rest_service.http.envelope import RequestRefused, success
from rest_service.http.inputs import media_type
from rest_service.http.openapi import polled
from rest_service.http.parameters import StrictRoute
from rest_service.service import Service, TheClient, TheCrawl, TheService, named_crawl
from rest_service.topics.pace import pace_of
from rest_service.topics.seeds import CSV, NDJSON, SeedInput, read_seeds
from rest_service.v2.living import living_spiders, with_lanes

router = APIRouter(prefix="/v2", tags=["crawls"], route_class=StrictRoute)

_SEED = {"url": "https://example.com", "appid": "myapp", "crawlid": "spring-1", "maxdepth": 1}
_BODIES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"examples": {"one": {"value": _SEED}, "many": {"value": [_SEED]}}},
            **{kind: {"example": orjson.dumps(_SEED).decode()} for kind in sorted(NDJSON)},
            CSV: {"example": "url,appid,crawlid,maxdepth\nhttps://example.com,myapp,spring-1,1\n"},
        },
    }
}

_CRAWLS_LOGGED = 10
_WARNINGS_TOLD = 100

Id = Annotated[str, Field(min_length=1, max_length=300)]


class Target(BaseModel):
    """The crawl to change, and its new values."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "example": {"appid": "myapp", "crawlid": "spring-1", "spiderid": "link"}
        },
    )

    appid: Id
    crawlid: Id
    spiderid: Id | None = None
    """Default: ``link``, or the only other spider with a crawl of this id."""
    priority: int | None = None
    """Required for ``reprioritize``, not allowed otherwise."""
    until: int | None = Field(None, ge=1, le=LATEST)
    """End of a ``pause`` in epoch seconds; not allowed otherwise."""


@router.post("/crawls", status_code=202, summary="Feed seeds", openapi_extra=_BODIES)
async def submit(
    request: Request,
    service: TheService,
    client: TheClient,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> Response:
    """Feed one seed or many: all of them, or none if one is bad.

    The answer comes when Kafka has them; ``warnings`` names spiders of which no crawler is running.
    With an ``Idempotency-Key`` the same request may be repeated for an hour: it is fed once by this
    process.
    """
    body = await request.body()
    # In a thread: thousands of seeds take a while.
    seeds = await asyncio.to_thread(read_seeds, body, media_type(request), service.limits)
    client.check(*{seed.request.appid for seed in seeds})

    async def work() -> bytes:
        named = _named(seeds)
        with audited(client, "feed", seeds=len(seeds), crawls=named[:_CRAWLS_LOGGED]):
            await service.quota.admit(client, len(seeds))
            await service.feed([seed.raw for seed in seeds], client.traceparent)
        absent = list(_absences(seeds, await living_spiders(service)))
        return orjson.dumps({"fed": len(seeds), "crawls": named, "warnings": absent})

    if idempotency_key is None:
        return success(orjson.Fragment(await work()), status=202)
    done = await service.once.run(client.name, idempotency_key, body, work)
    return success(orjson.Fragment(done), status=202)


@router.post("/check", summary="Check seeds", openapi_extra=_BODIES)
async def check(request: Request, service: TheService, client: TheClient) -> Response:
    """Check whether seeds would be fed, and how long they take by the rules; feed nothing.

    ``warnings`` names spiders of which no crawler is running, and hosts that are hardly in the
    internet, such as a name without a dot.
    ``pages`` are the seeds, or ``max_pages`` where links are followed; ``seconds`` is the least
    time that these take. ``sites`` has the slowest ten, with the ``seconds_per_page`` of their
    rules (null: nothing is fetched).
    """
    body = await request.body()
    seeds = await asyncio.to_thread(read_seeds, body, media_type(request), service.limits)
    client.check(*{seed.request.appid for seed in seeds})
    told = pace_of([seed.request for seed in seeds], await service.frontier.rules.table())
    warnings = await _warnings(service, seeds)
    return success({"good": len(seeds), "crawls": _named(seeds), "warnings": warnings, **told})


async def _warnings(service: Service, seeds: Sequence[SeedInput]) -> Sequence[str]:
    """Return a sentence for each spider without a crawler, and each host that hardly exists."""
    spiders = await living_spiders(service)
    unlikely = await asyncio.to_thread(_unlikely, seeds)
    return [*_absences(seeds, spiders), *unlikely]


def _absences(seeds: Sequence[SeedInput], spiders: Spiders) -> Iterator[str]:
    """Yield a sentence for each spider that seeds would wait for; none if that is not known."""
    wanted = dict.fromkeys(
        lane for seed in seeds for lane in lanes_of(seed.request.spiderid, seed.request.render)
    )
    if spiders is not None:
        for name in islice((one for one in wanted if one not in spiders), _WARNINGS_TOLD):
            yield f"{absence(name, spiders=spiders)}, so its seeds would wait."


def _unlikely(seeds: Sequence[SeedInput]) -> Sequence[str]:
    """Return a sentence for each host that is accepted but will hardly be reached."""
    hosts = dict.fromkeys(host_of(seed.request.url) for seed in seeds)
    return list(islice(filter(None, map(unlikely_host, hosts)), _WARNINGS_TOLD))


@router.get("/crawls", summary="List crawls")
async def crawls(
    service: TheService,
    client: TheClient,
    *,
    spiderid: str | None = None,
    appid: str | None = None,
    state: str | None = None,
    kind: Annotated[Literal["crawl", "scrape"], Query()] = "crawl",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """Remembered crawls, the latest activity first, each with the ledger of its run.

    Those of scrapes are listed with ``kind=scrape`` only: one for each minute and process.
    ``problem`` is a sentence on why a crawl stands, or has ended without a page; null: nothing is
    known. ``waits_for`` are the spiders that a crawler is missing of.
    """
    if appid is not None:
        client.check(appid)
    wanted = sorted(client.appids) if client.appids and appid is None else [appid]
    found = [
        crawl
        for one in wanted
        for crawl in await service.frontier.queries.crawls(spiderid=spiderid, appid=one)
    ]
    wants_scrapes = kind == "scrape"
    fitting = [
        crawl
        for crawl in found
        if state in {None, crawl.state} and is_scrapes(crawl.crawl.crawlid) == wants_scrapes
    ]
    fitting.sort(key=lambda crawl: crawl.last_activity, reverse=True)
    spiders = await living_spiders(service)
    page = await with_lanes(service, fitting[offset : offset + limit], spiders)
    told = [views.crawl(one, spiders) for one in page]
    return success({"total": len(fitting), "crawls": told})


@router.get("/crawl", summary="One crawl")
async def crawl(service: TheService, key: TheCrawl) -> Response:
    """The ledger of the crawl's latest run, why it stands, and its waiting pages by domain."""
    state = await crawl_state(service, key)
    return success(views.crawl(state, await living_spiders(service)))


@router.get("/crawl/top", summary="The next pages of a crawl")
async def top(
    service: TheService,
    client: TheClient,
    key: TheCrawl,
    *,
    n: Annotated[int, Query(ge=1, le=MOST_NEXT)] = 20,
) -> Response:
    """Pages that are requested next, in their order, with the reason for their priority.

    ``due_ms`` is the earliest time by the rule of the domain; keys that are limited to
    applications do not get it. ``is_complete`` is false if other pages may come in between.
    """
    found = await service.frontier.queries.next_pages(key, n)
    if found is None:
        raise RequestRefused(404, "No such crawl found.", code="unknown_crawl")
    return success(views.next_pages(found, with_times=not client.appids))


@router.post(
    "/crawl/{verb}",
    summary="Stop, pause, resume or reprioritize a crawl",
    responses=polled(),
)
async def steer(
    verb: Steering,
    target: Target,
    service: TheService,
    client: TheClient,
) -> Response:
    """Stop, pause, resume or reprioritize a crawl, after all requests that were fed before.

    ``data`` is the cluster's reply, or ``{"poll_id": …}`` with status 202 when it takes longer.
    """
    with audited(client, verb, **target.model_dump()):
        client.check(target.appid)
        key = await named_crawl(service, target.appid, target.crawlid, target.spiderid)
        return await _steer(verb, target, service, client, spiderid=key.spiderid)


async def _steer(
    verb: Steering, target: Target, service: Service, client: Client, *, spiderid: str
) -> Response:
    if (verb == "reprioritize") != (target.priority is not None):
        raise RequestRefused(
            422,
            "`priority` is required for reprioritize and not allowed otherwise.",
            code="invalid",
        )
    if target.until is not None and verb != "pause":
        raise RequestRefused(422, "`until` is for pause only: leave it out.", code="invalid")
    uuid = uuid4().hex
    asked = requests.encode(
        ActionRequest(
            name=verb,
            uuid=uuid,
            appid=target.appid,
            spiderid=spiderid,
            crawlid=target.crawlid,
            priority=target.priority,
            until=target.until,
        )
    )
    # An invalid request is refused here, not on a topic that the client does not read.
    requests.decode(asked, limits=service.limits)
    reply = await service.request(client, asked, uuid)
    if reply is None:
        return success({"poll_id": uuid}, status=202)
    if problem := orjson.loads(reply).get("error"):
        raise RequestRefused(404, str(problem), code="unknown_crawl")
    return success(orjson.Fragment(reply))


async def crawl_state(service: Service, key: CrawlKey) -> CrawlState:
    """Return the state of a crawl; raise RequestRefused (404) if it is not remembered."""
    state = await service.frontier.queries.crawl_state(key)
    if state is None:
        raise RequestRefused(404, "No such crawl found.", code="unknown_crawl")
    return state


def _named(seeds: Sequence[SeedInput]) -> list[dict[str, str]]:
    """Return the crawls that seeds belong to, each once."""
    return [asdict(key) for key in dict.fromkeys(seed.request.crawl for seed in seeds)]
