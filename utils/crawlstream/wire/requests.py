"""Requests from Kafka: decode bytes to one of five kinds, or refuse them with a reason.

Steps of decoding
    The bytes are parsed to an object (:mod:`~crawlstream.wire.strict`). Its kind is the first one,
    by rank, whose schema it fits. A crawl request is then checked for problems that a schema cannot
    express (:mod:`~crawlstream.wire.crawl_request`). An object that fits no kind is refused with
    the problems that it has as the most likely kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from crawlstream.errors import InvalidRequest
from crawlstream.model.recurring.schedule import Occasion
from crawlstream.model.request import (
    ActionRequest,
    Refusal,
    Request,
    RequestLimits,
    ScheduleRequest,
    StatsRequest,
    ZookeeperRequest,
)
from crawlstream.wire import jsontext
from crawlstream.wire.crawl_request import crawl_request
from crawlstream.wire.schedules import encode_request, schedule_request
from crawlstream.wire.schemas import Schema
from crawlstream.wire.strict import has_more_values, is_deeper, parse_object

IDS = ("uuid", "appid", "crawlid", "spiderid", "schedule")
"""Fields by which a client recognises its own request."""

_DEFAULT_LIMITS = RequestLimits()
_LONGEST_ID = 100
_MOST_VALUES = 250_000
"""Maximum values in a refused record that is parsed for its ids; about 20 MiB."""
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class RequestKind:
    """Kind of request; kinds are tried by rank, lowest first."""

    name: str
    rank: int
    schema: Schema
    build: Callable[[Mapping[str, Any], RequestLimits], Request]
    marks: frozenset[str]
    """Fields that indicate this kind."""


def _action(fields: Mapping[str, Any], _: RequestLimits) -> ActionRequest:
    others = {name: value for name, value in fields.items() if name != "action"}
    if others.get("occasion"):
        others["occasion"] = Occasion(**others["occasion"])
    return ActionRequest(name=fields["action"], **others)


SCRAPER = RequestKind("scraper", 100, Schema.bundled("scraper"), crawl_request, frozenset({"url"}))
ACTION = RequestKind(
    "action", 200, Schema.bundled("action"), _action, frozenset({"action", "spiderid"})
)
SCHEDULE = RequestKind(
    "schedule",
    250,
    Schema.bundled("schedule"),
    schedule_request,
    frozenset({"schedule", "cron", "seeds", "seeds_from", "do"}),
)
STATS = RequestKind(
    "stats",
    300,
    Schema.bundled("stats"),
    lambda fields, _: StatsRequest(**fields),
    frozenset({"stats"}),
)
ZOOKEEPER = RequestKind(
    "zookeeper",
    400,
    Schema.bundled("zookeeper"),
    lambda fields, _: ZookeeperRequest(**fields),
    frozenset({"action", "domain", "hits", "window", "scale"}),
)
KINDS = (SCRAPER, ACTION, SCHEDULE, STATS, ZOOKEEPER)


def decode(raw: bytes | None, *, limits: RequestLimits = _DEFAULT_LIMITS) -> Request:
    """Return the request in a record's value.

    Raise InvalidRequest for any other bytes: its reason is a ``Refusal``, its problems are
    sentences with their JSON path.
    """
    fields = parse_object(raw, limits)
    for kind in KINDS:
        if kind.schema.fits(fields):
            return kind.build(fields, limits)
    kind = likeliest(fields)
    title = kind.schema.title.lower()
    problems = [f"{problem} (read as {title})" for problem in kind.schema.problems(fields)]
    raise InvalidRequest(Refusal.BAD_REQUEST, problems)


def encode(request: ActionRequest | ScheduleRequest | StatsRequest | ZookeeperRequest) -> bytes:
    """Return a request as JSON in normal form; ``decode`` reads it."""
    if isinstance(request, ScheduleRequest):
        return encode_request(request)
    record: dict[str, object] = {"uuid": request.uuid, "appid": request.appid}
    if isinstance(request, ActionRequest):
        record |= {"action": request.name, "spiderid": request.spiderid, "crawlid": request.crawlid}
        if request.priority is not None:
            record["priority"] = request.priority
        if request.until is not None:
            record["until"] = request.until
        if request.occasion is not None:
            record["occasion"] = asdict(request.occasion)
    elif isinstance(request, StatsRequest):
        record |= {"stats": request.stats}
    else:
        record |= {
            "action": request.action,
            "domain": request.domain,
            "hits": request.hits,
            "window": request.window,
            "scale": request.scale,
        }
    return jsontext.dumps(record)


def likeliest(fields: Mapping[str, Any]) -> RequestKind:
    """Return the most likely kind of an object, by its fields."""
    if "url" in fields:
        return SCRAPER
    if "action" in fields and fields["action"] in ZOOKEEPER.schema.properties["action"]["enum"]:
        return ZOOKEEPER
    return max(KINDS, key=lambda kind: _likeness(kind, fields))


def _likeness(kind: RequestKind, fields: Mapping[str, Any]) -> tuple[int, int, int]:
    known = sum(name in kind.schema.properties for name in fields)
    return len(kind.marks & fields.keys()), known, -kind.rank


def readable_ids(raw: bytes | None) -> Mapping[str, str]:
    """Return the readable ids of a refused record, cut to 100 characters.

    Use them in the reply only: they are not validated.
    """
    text = (raw or b"").removeprefix(jsontext.BYTE_ORDER_MARK)
    is_expensive = has_more_values(text, _MOST_VALUES) or is_deeper(
        text, _DEFAULT_LIMITS.max_levels
    )
    fields = None if is_expensive else _leniently(text)
    if not isinstance(fields, dict):
        return {}
    found = {name: fields[name] for name in IDS if isinstance(fields.get(name), str)}
    return {name: _UNPRINTABLE.sub("?", text[:_LONGEST_ID]) for name, text in found.items()}


def key_of(raw: bytes | None) -> bytes | None:
    """Return ``key_of_fields`` for a record's value."""
    return key_of_fields(readable_ids(raw))


def key_of_fields(fields: Mapping[str, object]) -> bytes | None:
    """Return the Kafka key that keeps the requests of a crawl in order: ``<appid>:<crawlid>``.

    Requests of a schedule have ``<appid>:<schedule>``. Return None if the request names neither.
    """
    appid = fields.get("appid")
    for name in ("crawlid", "schedule"):
        other = fields.get(name)
        if isinstance(appid, str) and isinstance(other, str):
            return f"{appid}:{other}".encode()
    return None


def _leniently(text: bytes) -> object:
    """Return the value of any JSON, also with NaN and lone surrogates; None: not JSON."""
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(text.decode("utf-8", "replace"))
        except ValueError:
            return None
    return value
