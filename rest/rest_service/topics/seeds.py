"""Seeds as people hand them in: one object, a list, a line each, or a table."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from crawlstream.errors import InvalidRequest
from crawlstream.model.request import CrawlRequest, RequestLimits
from crawlstream.wire import jsontext, requests
from crawlstream.wire.request_tables import read_table
from rest_service.http.envelope import RequestRefused
from rest_service.http.inputs import parse_json

MAX_SEEDS = 10_000
"""Maximum seeds of one request, as this process checks all of them at once."""
NDJSON = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
CSV = "text/csv"
_ERRORS_TOLD = 100
_BAD = "The request body is not valid."


@dataclass(frozen=True, slots=True)
class SeedInput:
    """A seed as bytes for Kafka, and the request decoded from them."""

    raw: bytes
    request: CrawlRequest


def read_seeds(body: bytes, kind: str, limits: RequestLimits) -> Sequence[SeedInput]:
    """Return the seeds of a body; RequestRefused names the bad ones, if there are any."""
    raws = list(islice(_split(body, kind), MAX_SEEDS + 1))
    if not raws or len(raws) > MAX_SEEDS:
        raise RequestRefused(422, f"A request must contain 1 to {MAX_SEEDS} seeds.", code="invalid")
    seeds: list[SeedInput] = []
    problems: list[str] = []
    for number, raw in enumerate(raws, 1):
        try:
            seeds.append(SeedInput(raw, _as_crawl(raw, limits)))
        except InvalidRequest as error:
            where = f"seed {number}: " if len(raws) > 1 else ""
            problems += [where + problem for problem in error.problems]
    if problems:
        raise RequestRefused(
            422, "No seed was accepted.", code="bad_request", errors=problems[:_ERRORS_TOLD]
        )
    return seeds


def _split(body: bytes, kind: str) -> Iterator[bytes]:
    if kind in NDJSON:
        return (line for line in body.splitlines() if line.strip())
    if kind == CSV:
        return (jsontext.dumps(row) for row in _rows(body))
    if kind != "application/json":
        named = ", ".join(["application/json", *sorted(NDJSON), CSV])
        raise RequestRefused(
            415, f"Unsupported media type; supported: {named}.", code="bad_media_type"
        )
    value = parse_json(body, _BAD)
    return map(jsontext.dumps, value) if isinstance(value, list) else iter([body])


def _as_crawl(raw: bytes, limits: RequestLimits) -> CrawlRequest:
    request = requests.decode(raw, limits=limits)
    if not isinstance(request, CrawlRequest):
        raise InvalidRequest("bad_request", ["$: not a crawl request: url is missing"])
    return request


def _rows(body: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        yield from read_table(io.BytesIO(body))
    except InvalidRequest as error:
        raise RequestRefused(400, _BAD, cause=str(error)) from error
