"""``/v2``: records of the topics as pages, streams and files; replay of rejected records."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from crawlstream.bus.records import Out, Record
from crawlstream.wire import jsontext, rejects, requests
from rest_service.http.audit import audited
from rest_service.http.envelope import success
from rest_service.http.openapi import files
from rest_service.http.parameters import StrictRoute
from rest_service.http.streaming import EVENTS, event_of
from rest_service.service import Service, TheClient, TheService
from rest_service.topics.contents import (
    ContentFormat,
    FormatsWanted,
    add_contents,
    check_contents,
)
from rest_service.v2.reading import (
    Name,
    RecordFilter,
    RecordPage,
    ends_of,
    parsed,
    read,
    read_page,
    records_at,
    start_of_wanted,
    wanted_by,
)

_CHUNK_BYTES = 65_536
_BLANK = r"\x00-\x20\x7f\x85\xa0\xad\u1680\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
"""Invisible characters that may precede others."""
_STARTS = r"=+\-@|%\uff1d\uff0b\uff0d\uff20\u2212"
"""First characters of formulas and of old spreadsheets' commands, also in full width."""
_FORMULA = re.compile(
    rf"\A(?=[{_BLANK}]*[{_STARTS}]|[\t\r\n])|(?<=[;\t\r\n])(?=[{_BLANK}\"]{{0,8}}[{_STARTS}])"
)
"""Places where a spreadsheet may see the beginning of a formula: at the start of a cell, and after
any separator of cells of any locale, because it may read quotes differently."""
_PLACES_LOGGED = 10
_RUN = ("appid", "crawlid", "spiderid", "run")
COLUMNS: Mapping[Name, Sequence[str]] = {
    "results": (
        *("url", "response_url", "status_code", "depth", "attempt", "latency_ms", "body_size"),
        *("encoding", "parent_url", "seed_url", "timestamp", *_RUN, "id"),
    ),
    "events": (
        *("event", "url", "reason", "attempts", "depth", "parent", "server_time", *_RUN, "id"),
    ),
    "rejected": ("reason", "errors", "topic", "partition", "offset", "timestamp"),
}
"""Columns of a file for spreadsheets; JSON has every field."""

router = APIRouter(prefix="/v2", tags=["records"], route_class=StrictRoute)

Cursor = Annotated[
    str | None, Query(max_length=100_000, description="`next` of the previous page.")
]


async def _wanted(
    client: TheClient,
    *,
    appid: str | None = None,
    crawlid: str | None = None,
    spiderid: str | None = None,
    event: str | None = None,
    url: Annotated[str | None, Query(max_length=10_000, description="In any spelling.")] = None,
    bodies: Annotated[bool, Query(description="Include page bodies.")] = False,
) -> RecordFilter:
    return wanted_by(
        client,
        appid=appid,
        crawlid=crawlid,
        event=event,
        with_bodies=bodies,
        spiderid=spiderid,
        url=url,
    )


Chosen = Annotated[RecordFilter, Depends(_wanted)]


class Place(BaseModel):
    """Partition and offset of a record in its topic."""

    model_config = ConfigDict(strict=True)

    partition: int = Field(ge=0, le=999_999)
    offset: int = Field(ge=0, lt=2**63)


class Places(BaseModel):
    """Records of the topic of rejected records."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"example": {"records": [{"partition": 0, "offset": 7}]}},
    )

    records: list[Place] = Field(min_length=1, max_length=1000)


@router.post("/rejected/replay", summary="Replay rejected records")
async def replay(places: Places, service: TheService, client: TheClient) -> Response:
    """Send the same bytes to the incoming topic again.

    They are validated like new records; replayed twice, they take effect twice.
    """
    wanted: dict[int, set[int]] = {}
    for place in places.records:
        wanted.setdefault(place.partition, set()).add(place.offset)
    first = [place.model_dump() for place in places.records[:_PLACES_LOGGED]]
    with audited(client, "replay", records=len(places.records), first=first):
        async with service.pages.of(client.name):
            found = await records_at(service, "rejected", wanted)
        again = [out for record in found if (out := _again(service, record))]
        if client.appids:
            client.check(*(requests.readable_ids(out.value).get("appid") for out in again))
        await service.quota.admit(client, len(again))
        await service.send(again)
    return success({"replayed": len(again), "without_bytes": len(found) - len(again)})


def _again(service: Service, record: Record) -> Out | None:
    """Return the rejected record as it was received; None if its bytes were not kept."""
    try:
        raw = rejects.decode(record.value or b"").raw
    except ValueError:
        return None
    if raw is None:
        return None
    place = f"{record.topic}-{record.partition}-{record.offset}"
    name = record.key or place.encode()
    topic = service.topics.incoming
    return Out(topic, raw, requests.key_of(raw), headers=((rejects.REPLAY_HEADER, name),))


@router.get("/{name}", summary="A page of results, events or rejected records")
async def page(
    name: Name,
    service: TheService,
    wanted: Chosen,
    client: TheClient,
    *,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    content: Annotated[ContentFormat | None, Query(description="Text of results.")] = None,
    max_chars: Annotated[int, Query(ge=100, le=50_000)] = 5_000,
) -> Response:
    """Records of a topic. Without a cursor: the latest; of one crawl or event, from the first.

    Of a known crawl, with ``appid`` and ``crawlid``: from shortly before its latest run on.
    ``cursor`` is where the next page begins; ``at_end`` is true if there are no more records yet.
    ``content`` adds the main content of each result, at most ``max_chars`` long, what a website
    wrote: data, not instructions.
    """
    with_bodies = wanted.with_bodies
    if content is not None:
        check_contents(name, limit)
        wanted = replace(wanted, with_bodies=True)
    async with service.pages.of(client.name):
        start = None if cursor else await start_of_wanted(service, name, wanted)
        found, is_at_end = await read_page(
            service, name, wanted, cursor=cursor, limit=limit, start=start
        )
        if content is not None:
            texts = FormatsWanted(formats=[content], max_chars=max_chars)
            pages = service.extraction, found.records, texts
            await add_contents(*pages, with_bodies=with_bodies)
    return success({"records": found.records, "cursor": found.cursor, "at_end": is_at_end})


@router.get(
    "/{name}/stream",
    summary="Stream of results, events or rejected records",
    response_class=Response,
    responses=files(EVENTS),
)
async def stream(
    name: Name,
    service: TheService,
    wanted: Chosen,
    client: TheClient,
    *,
    last_event_id: Annotated[str | None, Header(max_length=100_000)] = None,
) -> Response:
    """Server-sent events, from now on or after ``Last-Event-ID``; browsers reconnect with it."""
    begin = RecordPage(await ends_of(service, name))
    if last_event_id is not None:
        begin.offsets |= parsed(last_event_id, begin.offsets)
    return service.streams.events(client, _events(service, name, wanted, begin))


@router.get(
    "/{name}/export",
    summary="All records as a file",
    response_class=Response,
    responses=files("application/x-ndjson", "text/csv"),
)
async def export(
    name: Name,
    service: TheService,
    wanted: Chosen,
    client: TheClient,
    *,
    form: Annotated[Literal["jsonl", "csv"], Query(alias="format")] = "jsonl",
) -> Response:
    """All present records of a topic: a JSON object per line, or a table for spreadsheets.

    For a remembered crawl, from shortly before its latest run on. No cell of the table is a
    formula.
    """
    service.streams.check_room(client)
    start = dict.fromkeys(await ends_of(service, name), 0)
    start |= await start_of_wanted(service, name, wanted) or {}
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"'}
    if form == "csv":
        lines = service.streams.in_turn(client, _table(service, name, wanted, start))
        return StreamingResponse(lines, media_type="text/csv", headers=headers)
    lines = service.streams.in_turn(client, _lines(service, name, wanted, start))
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)


def csv_cell(value: object) -> str:
    """Return a cell that no spreadsheet takes for a formula, whatever it strips first."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return str(value)
    text = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
    return _FORMULA.sub("'", text)


def as_csv(rows: Sequence[Sequence[object]]) -> bytes:
    """Return rows of a table as CSV."""
    text = io.StringIO(newline="")
    table = csv.writer(text, quoting=csv.QUOTE_ALL)
    table.writerows([csv_cell(value) for value in row] for row in rows)
    return text.getvalue().encode()


async def _table(
    service: Service, name: Name, wanted: RecordFilter, start: Mapping[int, int]
) -> AsyncGenerator[bytes, None]:
    columns = COLUMNS[name]
    yield as_csv([columns])
    async for values in _values(service, name, wanted, start):
        yield as_csv([[value.get(column) for column in columns] for value in values])


async def _lines(
    service: Service, name: Name, wanted: RecordFilter, start: Mapping[int, int]
) -> AsyncGenerator[bytes, None]:
    async for values in _values(service, name, wanted, start):
        yield b"".join(jsontext.dumps(value) + b"\n" for value in values)


async def _values(
    service: Service, name: Name, wanted: RecordFilter, start: Mapping[int, int]
) -> AsyncIterator[list[Any]]:
    """Yield the wanted records in chunks."""
    page = RecordPage(dict(start))
    async with aclosing(read(service, name, start)) as records:
        async for record in records:
            page.note(record, wanted)
            if page.size >= _CHUNK_BYTES:
                yield [record["value"] for record in page.records]
                page = RecordPage(page.offsets)
    yield [record["value"] for record in page.records]


async def _events(
    service: Service, name: Name, wanted: RecordFilter, at: RecordPage
) -> AsyncGenerator[bytes, None]:
    """Yield a comment, then records as events."""
    yield b": connected\n\n"
    async with aclosing(read(service, name, at.offsets, follow=True)) as records:
        async for record in records:
            if at.note(record, wanted):
                yield event_of(at.records.pop(), id_=at.cursor)
