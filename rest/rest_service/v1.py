"""The predecessor's three endpoints, as its clients know them.

Differences are limited to behaviour that no client can depend on: no busy waiting, replies are kept
for an hour and within bounds, and ``rejected`` of the cluster answers a request that was refused.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import jsonschema
import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from crawlstream.bus.records import RecordTooLarge
from crawlstream.errors import InvalidRequest, KafkaUnavailable
from crawlstream.model.request import ActionRequest, CrawlRequest, ScheduleRequest, StatsRequest
from crawlstream.wire import jsontext, requests
from rest_service.dashboard.cluster import overview
from rest_service.http.access import Client, Role
from rest_service.http.audit import audited_request
from rest_service.http.envelope import RequestRefused, answer, success
from rest_service.http.hiding import hide_seeds
from rest_service.http.inputs import is_json, parse_json, wants_html
from rest_service.http.openapi import body
from rest_service.service import Service, TheClient, TheService, traced

NO_KAFKA = "Unable to connect to Kafka"
NOT_JSON = "The payload must be valid JSON."
_POLL_SCHEMA = {
    "type": "object",
    "properties": {"poll_id": {"type": "string", "minLength": 1, "maxLength": 100}},
    "required": ["poll_id"],
    "additionalProperties": False,
}

_IDS = {"appid": "myapp", "crawlid": "spring-1"}
_FEED = body(
    crawl={"url": "https://example.com", "maxdepth": 1, **_IDS},
    info={"action": "info", "spiderid": "link", "uuid": "c3b6", **_IDS},
    stats={"stats": "all", "appid": "myapp", "uuid": "c3b7"},
    throttle={
        "action": "domain-update",
        "domain": "example.com",
        "hits": 2,
        "window": 1,
        "appid": "myapp",
        "uuid": "c3b8",
    },
)
_ASKED = body(poll={"poll_id": "c3b6"})

router = APIRouter(tags=["predecessor"])


@router.get("/", summary="State of this process")
async def index(request: Request, service: TheService, client: TheClient) -> Response:
    """Return the state of this process: a page for browsers, JSON for programs."""
    if wants_html(request) and client.appids:
        return RedirectResponse("/ui/crawls", 303)
    if wants_html(request):
        return await overview(request, service)
    if is_json(request) and (raw := await request.body()):
        parse_json(raw, NOT_JSON)
    return answer(
        {
            "kafka_connected": service.reach.kafka,
            "redis_connected": service.reach.redis,
            "uptime_sec": int(time.monotonic() - service.started_at),
            "my_id": service.node,
            "node_health": service.reach.colour,
        }
    )


router.add_api_route("/", index, methods=["POST"], include_in_schema=False)


@router.post("/feed", summary="Feed any request to the cluster", openapi_extra=_FEED)
async def feed(request: Request, service: TheService, client: TheClient) -> Response:
    """Pass a request on as it is. With a ``uuid``, its reply is waited for a few seconds.

    If the reply takes longer, the answer is a ``poll_id`` with which ``/poll`` returns it.
    """
    raw, fields = await _object_in(request)
    uuid = fields.get("uuid")
    if uuid is not None and not (isinstance(uuid, str) and uuid):
        # Its refusal could not name a uuid, so no reply would reach the client.
        raise RequestRefused(
            400, "JSON did not validate against schema.", cause="$.uuid: expected text, or no uuid"
        )
    with audited_request(client, fields):
        await _check(service, client, raw)
        return await _feed(service, traced(client, request, service.settings), raw)


async def _feed(service: Service, client: Client, raw: bytes) -> Response:
    uuid = requests.readable_ids(raw).get("uuid")
    try:
        if not uuid:
            await service.feed([raw], client.traceparent)
            return success(None)
        reply = await service.request(client, raw, uuid)
    except KafkaUnavailable as error:
        raise RequestRefused(500, NO_KAFKA) from error
    except RecordTooLarge as error:
        raise RequestRefused(
            413, "The request exceeds Kafka's maximum record size.", code="too_large"
        ) from error
    return success({"poll_id": uuid} if reply is None else _shown(reply, client))


@router.post("/poll", summary="Fetch a late reply", openapi_extra=_ASKED)
async def poll(request: Request, service: TheService, client: TheClient) -> Response:
    """Return the reply of a ``poll_id``, once."""
    _, fields = await _object_in(request)
    problems = [error.message for error in _POLL.iter_errors(fields)]
    if problems:
        raise RequestRefused(400, "JSON did not validate against schema.", cause=problems[0])
    reply = service.replies.take(fields["poll_id"], client.may_see)
    if reply is None:
        raise RequestRefused(404, "Could not find matching poll_id")
    return success(_shown(reply, client))


def _shown(reply: bytes, client: Client) -> orjson.Fragment:
    """Return a reply without secrets, unless the client may see them.

    A late reply may answer another client's request.
    """
    if client.sees_secrets:
        return orjson.Fragment(reply)
    value = jsontext.loads(reply)
    return orjson.Fragment(jsontext.dumps(hide_seeds(value)) if isinstance(value, dict) else reply)


_POLL: Any = jsonschema.Draft7Validator(_POLL_SCHEMA)


async def _object_in(request: Request) -> tuple[bytes, dict[str, Any]]:
    """Return body and fields of a JSON object; the bytes are passed on, so no number changes."""
    raw = await request.body()
    if not is_json(request):
        raise RequestRefused(400, NOT_JSON)
    fields = parse_json(raw, NOT_JSON)
    if not isinstance(fields, dict):
        raise RequestRefused(400, NOT_JSON, cause="must be an object")
    return raw, fields


async def _check(service: Service, client: Client, raw: bytes) -> None:
    """Check that a client may feed this request; RequestRefused gives the reason.

    The role submit may feed crawls, `info` and statistics requests; all others need operate. A
    client that is limited to applications may only feed requests about these.
    """
    is_free = client.waiting is client.schedules is None and not client.appids
    if client.role >= Role.OPERATE and is_free:
        return
    try:
        # In a thread: decoding compiles expressions.
        fed = await asyncio.to_thread(requests.decode, raw, limits=service.limits)
    except InvalidRequest:
        fed = None
    asks = isinstance(fed, ActionRequest) and fed.name == "info"
    if client.role < Role.OPERATE and not asks and not isinstance(fed, CrawlRequest | StatsRequest):
        raise RequestRefused(403, "This request needs the role operate.", code="forbidden")
    if client.appids:
        is_of_one = isinstance(fed, CrawlRequest | ActionRequest)
        client.check(fed.appid if is_of_one and fed else None)
    if isinstance(fed, CrawlRequest):
        await service.quota.admit(client, 1)
    if isinstance(fed, ScheduleRequest):
        await service.quota.admit_schedule(client, fed)
