"""The answer to a scrape: the page that a reply names, in the formats that its client wants."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import AsyncExitStack
from typing import Any

from crawlstream.model.delivered import Delivered
from crawlstream.model.event import PageReply, RecordPlace
from crawlstream_extract.extract import Extracted
from rest_service.http.access import Client
from rest_service.service import Service
from rest_service.topics.contents import FormatsWanted, extracted
from rest_service.v2.scrapes.page_records import page_in, read_record, record_bytes
from rest_service.v2.scrapes.pictures import MOST_BYTES, screenshot_in
from rest_service.v2.scrapes.scrape_order import SCREENSHOT, PageShape

_TEXTS = frozenset({"markdown", "text", "html", "links", "metadata"})


async def scraped(
    service: Service,
    client: Client,
    reply: PageReply,
    shape: PageShape,
    *,
    held: AsyncExitStack,
    headers: MutableMapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the data of an answer; RequestRefused (503) if too many are made at the same time.

    ``held`` gets what the answer occupies: close it when the client has read the answer.
    ``headers`` gets ``traceparent`` if the page is sampled.
    """
    told: dict[str, Any] = {"id": reply.uuid, "state": "failed" if reply.reason else "done"}
    if reply.reason or reply.place is None:
        return {**told, "reason": reply.reason, "attempts": reply.attempts, "url": reply.url}
    await held.enter_async_context(service.places.of(client.name))
    size = record_bytes(reply) + (MOST_BYTES if SCREENSHOT in shape.formats else 0)
    await held.enter_async_context(service.scrape_bytes.of(client.name, size))
    started = time.monotonic()
    record = await read_record(service, reply)
    read_ms = _ms_since(started)
    if record is None:
        return {**told, **_without_record(reply, reply.place)}
    if headers is not None and record.traceparent:
        headers["traceparent"] = record.traceparent.decode()
    page = await page_in(record)
    if page is None:
        return {**told, **_without_record(reply, reply.place, problem="unreadable")}
    # Its value, as large as the page, is not needed while others are extracted.
    place = record.partition, record.offset
    del record
    started = time.monotonic()
    made = await extracted(service.extraction, page, _wanted(shape))
    timings = {"site": page.latency_ms, "read": read_ms, "extract": _ms_since(started)}
    told |= {**_with_page(page, place, made, shape), "timings_ms": timings}
    if SCREENSHOT in shape.formats:
        told[SCREENSHOT], problems = await screenshot_in(service.settings, page)
        told["problems"] += problems
    return told


def _wanted(shape: PageShape) -> FormatsWanted:
    formats = [name for name in shape.formats if name in _TEXTS]
    return FormatsWanted(formats=formats, main=shape.main, max_chars=shape.max_chars)


def _with_page(
    page: Delivered, place: tuple[int, int], made: Extracted, shape: PageShape
) -> dict[str, Any]:
    metadata = made.formats.get("metadata") or {}
    formats: dict[str, Any] = {
        name: made.formats.get(name) for name in shape.formats if name in _TEXTS
    }
    if "raw" in shape.formats:
        formats["raw"] = _raw(page)
    return {
        "source": "fetched",
        "age_s": max(0, round(time.time() - page.timestamp.timestamp())),
        "page": {
            "url": page.url,
            "response_url": page.response_url,
            "status_code": page.status_code,
            "mime": page.mime,
            "timestamp": page.timestamp.isoformat(),
            "digest": page.digest,
            "title": metadata.get("title"),
            "lang": metadata.get("lang"),
            "id": page.id,
            "partition": place[0],
            "offset": place[1],
            "body_size": page.body_size,
            "body_ref": page.body_ref,
            **({"render": rendered} if (rendered := page.extra.get("render")) else {}),
        },
        **formats,
        "truncated": made.truncated or page.body_truncated,
        "problems": [*_problems(made, shape), *_undone(page)],
        "untrusted": True,
    }


def _problems(made: Extracted, shape: PageShape) -> list[str]:
    """Return the problems of the formats that the client wants."""
    is_wanted = "metadata" in shape.formats
    return [one for one in made.problems if is_wanted or not one.startswith("metadata:")]


def _undone(page: Delivered) -> Iterator[str]:
    """Yield why an action in the page could not be done."""
    rendered = page.extra.get("render")
    for effect in rendered.get("actions", ()) if isinstance(rendered, dict) else ():
        if "error" in effect:
            yield f"actions: {effect['error']}"


def _raw(page: Delivered) -> Mapping[str, str]:
    """Return the body as in a result: text, or base64."""
    if page.encoding and page.encoding != "binary":
        try:
            return {"body": page.body.decode(page.encoding), "body_encoding": "text"}
        except (LookupError, ValueError):
            pass
    return {"body": base64.b64encode(page.body).decode(), "body_encoding": "base64"}


def _without_record(
    reply: PageReply, place: RecordPlace, *, problem: str = "gone_from_kafka"
) -> dict[str, Any]:
    """Return what a reply says of its page, whose record Kafka has deleted."""
    return {
        "source": "fetched",
        "page": {
            "url": reply.url,
            "status_code": reply.status_code,
            "mime": reply.mime,
            "digest": reply.digest,
            "id": reply.id,
            "partition": place.partition,
            "offset": place.offset,
            "body_size": reply.body_size,
        },
        "truncated": False,
        "problems": [problem],
        "untrusted": True,
    }


def _ms_since(started: float) -> int:
    return round(1000 * (time.monotonic() - started))
