"""``/v2``: what the cluster tells on its topics, as pages and as streams."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

import orjson
from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse

from crawlstream.bus.records import Record
from crawlstream.bus.tail import end_offsets, read_topic
from crawlstream.errors import KafkaUnavailable
from crawlstream.tasks import beside
from rest_service.envelope import Refused, success
from rest_service.service import MAX_STREAMS, Service, TheService

SCANNED = 20_000
PAGE_BYTES = 16 * 1024 * 1024
PAGE_S = 10.0
"""A page ends at these bounds, wherever it is; its cursor goes on from there."""
_SILENCE_S = 15
_CURSOR = re.compile(r"\d{1,6}:\d{1,19}(?:,\d{1,6}:\d{1,19}){0,9999}")

router = APIRouter(prefix="/v2", tags=["records"])

Name = Literal["results", "events", "rejected"]
Cursor = Annotated[str | None, Query(max_length=100_000, description="As the page before said.")]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records of a topic somebody wants."""

    appid: str | None = None
    crawlid: str | None = None
    event: str | None = None
    with_bodies: bool = False

    @property
    def is_all(self) -> bool:
        """Whether every record is wanted."""
        return self.appid is self.crawlid is self.event is None

    def pick(self, record: Record) -> object:
        """The record as it is shown; None if it is not wanted or cannot be read."""
        raw = record.value or b""
        if self.crawlid is not None and orjson.dumps(self.crawlid)[1:-1] not in raw:
            return None
        try:
            value: Any = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(value, dict) or not self._fits(value):
            return None
        if not self.with_bodies:
            value.pop("body", None)
        return value

    def _fits(self, value: Mapping[str, Any]) -> bool:
        wanted = {"appid": self.appid, "crawlid": self.crawlid, "event": self.event}
        return all(value.get(name) == text for name, text in wanted.items() if text is not None)


@dataclass(slots=True)
class Page:
    """Records in the order in which they were read, and where the next page begins."""

    offsets: dict[int, int]
    records: list[dict[str, object]] = field(default_factory=list)
    scanned: int = 0
    size: int = 0

    @property
    def cursor(self) -> str:
        """The place behind the last record."""
        return ",".join(f"{number}:{offset}" for number, offset in sorted(self.offsets.items()))

    def is_full(self, limit: int) -> bool:
        """Whether the next record belongs to the next page."""
        is_long = len(self.records) >= limit or self.scanned >= SCANNED
        return is_long or self.size >= PAGE_BYTES

    def note(self, record: Record, wanted: Wanted) -> bool:
        """Go past a record; True: it is on the page."""
        self.offsets[record.partition] = record.offset + 1
        self.scanned += 1
        value = wanted.pick(record)
        if value is None:
            return False
        self.size += len(record.value or b"")
        self.records.append(
            {
                "partition": record.partition,
                "offset": record.offset,
                "at_ms": record.timestamp_ms,
                "key": record.key.decode("utf-8", "replace") if record.key else None,
                "value": value,
            }
        )
        return True


@router.get("/{name}", summary="A page of results, events or rejected records")
async def page(
    name: Name,
    service: TheService,
    *,
    appid: str | None = None,
    crawlid: str | None = None,
    event: str | None = None,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    bodies: Annotated[bool, Query(description="With the bodies of pages.")] = False,
) -> Response:
    """Records of a topic. Without a cursor: the latest; of one crawl or event, from the first.

    ``cursor`` is where the next page begins; ``at_end`` says that there is nothing more as yet.
    """
    wanted = Wanted(appid, crawlid, event, bodies)
    async with service.pages:
        found, is_at_end = await read_page(service, name, wanted, cursor=cursor, limit=limit)
    return success({"records": found.records, "cursor": found.cursor, "at_end": is_at_end})


@router.get("/{name}/stream", summary="Results, events or rejected records as they come")
async def stream(
    name: Name,
    service: TheService,
    *,
    appid: str | None = None,
    crawlid: str | None = None,
    event: str | None = None,
    bodies: bool = False,
    last_event_id: Annotated[str | None, Header(max_length=100_000)] = None,
) -> Response:
    """Server-sent events, from now on or behind ``Last-Event-ID``; browsers reconnect by it."""
    wanted = Wanted(appid, crawlid, event, bodies)
    begin = Page(await _ends(service, name))
    if last_event_id is not None:
        begin.offsets |= _parsed(last_event_id, begin.offsets)
    if service.streams.locked():
        raise Refused(429, f"{MAX_STREAMS} streams are read already.", code="too_many_streams")
    return StreamingResponse(
        _events(service, name, wanted, begin),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def read_page(
    service: Service, name: Name, wanted: Wanted, *, cursor: str | None = None, limit: int = 100
) -> tuple[Page, bool]:
    """A page, and whether it reaches the end of the topic as it was; KafkaUnavailable."""
    ends = await _ends(service, name)
    if cursor is not None:
        start = dict.fromkeys(ends, 0) | _parsed(cursor, ends)
    elif wanted.is_all:
        start = {number: max(0, end - limit) for number, end in ends.items()}
    else:
        start = dict.fromkeys(ends, 0)
    found = Page(start)
    if all(start[number] >= end for number, end in ends.items()):
        return found, True
    try:
        async with asyncio.timeout(PAGE_S), aclosing(_read(service, name, start)) as records:
            async for record in records:
                found.note(record, wanted)
                if found.is_full(limit):
                    return found, False
    except TimeoutError:
        return found, False
    found.offsets = {number: max(end, found.offsets[number]) for number, end in ends.items()}
    return found, True


def _read(
    service: Service, name: Name, offsets: Mapping[int, int], *, follow: bool = False
) -> AsyncGenerator[Record, None]:
    topic = _topic(service, name)
    hosts = service.settings.KAFKA_HOSTS
    records = read_topic(hosts, topic, offsets=dict(offsets), follow=follow)
    return cast("AsyncGenerator[Record, None]", records)


async def _events(
    service: Service, name: Name, wanted: Wanted, begin: Page
) -> AsyncIterator[bytes]:
    """The stream, with a sign of life every 15 s; it ends with the process, or without Kafka."""
    queue: asyncio.Queue[bytes] = asyncio.Queue(100)
    async with service.streams, beside(_pump(service, name, wanted, begin, queue=queue)) as (pump,):
        yield b": connected\n\n"
        silent_s = 0
        while not service.stopping.is_set() and not (pump.done() and queue.empty()):
            try:
                async with asyncio.timeout(1):
                    chunk = await queue.get()
            except TimeoutError:
                silent_s += 1
                if silent_s % _SILENCE_S == 0:
                    yield b": still here\n\n"
                continue
            silent_s = 0
            yield chunk


async def _pump(
    service: Service, name: Name, wanted: Wanted, at: Page, *, queue: asyncio.Queue[bytes]
) -> None:
    async with aclosing(_read(service, name, at.offsets, follow=True)) as records:
        async for record in records:
            if at.note(record, wanted):
                data = orjson.dumps(at.records.pop())
                await queue.put(b"id: %b\ndata: %b\n\n" % (at.cursor.encode(), data))


async def _ends(service: Service, name: Name) -> dict[int, int]:
    if not service.reach.kafka:
        raise KafkaUnavailable
    return dict(await end_offsets(service.settings.KAFKA_HOSTS, _topic(service, name)))


def _topic(service: Service, name: Name) -> str:
    topics = service.topics
    names = {"results": topics.crawled, "events": topics.events, "rejected": topics.rejected}
    return names[name]


def _parsed(cursor: str, ends: Mapping[int, int]) -> dict[int, int]:
    """Offsets out of a cursor, none beyond the end; Refused if it is no cursor."""
    if not _CURSOR.fullmatch(cursor):
        raise Refused(422, "This is no cursor.", code="invalid")
    pairs = [pair.split(":") for pair in cursor.split(",")]
    return {
        int(number): min(int(offset), ends[int(number)])
        for number, offset in pairs
        if int(number) in ends
    }
