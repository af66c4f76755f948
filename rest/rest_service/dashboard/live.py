"""A screen as a page, or as the stream that keeps the page live."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from redis.exceptions import RedisError

from crawlstream.errors import CrawlstreamError
from rest_service.dashboard.render import render, render_live
from rest_service.envelope import Refused
from rest_service.sampler import Point
from rest_service.service import Service

MAX_WATCHERS = 200
"""Streams of screens at a time."""
_SILENCE_S = 15.0

Values = Mapping[str, Any]
Since = Callable[[float], Sequence[Point]]


@dataclass(frozen=True, slots=True)
class Screen:
    """A screen with a live part."""

    template: str
    here: str
    fill: Callable[[], Awaitable[Values]]
    """Asks the cluster for the values of the template."""
    series: Since | None = None
    """The points of its charts after a time."""
    every_s: float = 1.0
    """How often it is looked at again; the dearer a look, the seldomer."""


async def show(request: Request, service: Service, screen: Screen) -> Response:
    """The screen, or a stream of its changes for whoever asks for server-sent events."""
    if "text/event-stream" not in request.headers.get("accept", ""):
        return render(screen.template, screen.here, **await screen.fill())
    if service.sampler.watchers >= MAX_WATCHERS:
        raise Refused(429, f"{MAX_WATCHERS} watch already.", code="too_many_streams")
    # What is wrong with the question is said before the stream begins.
    name = f"{request.url.path}?{request.url.query}"
    await _look(service, screen, name)
    return StreamingResponse(
        _changes(service, screen, name),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def _look(service: Service, screen: Screen, name: str) -> str:
    """The live part as it is now, the same for all who watch this screen."""

    async def ask() -> str:
        return render_live(screen.template, **await screen.fill())

    text: str = await service.sampler.shared(name, ask)
    return text


async def _changes(service: Service, screen: Screen, name: str) -> AsyncIterator[bytes]:
    sampler = service.sampler
    text, at = "", 0.0
    looked_at = said_at = 0.0
    with sampler.watching():
        while not service.stopping.is_set():
            chunk = b""
            if time.monotonic() - looked_at >= screen.every_s - 0.1:
                looked_at = time.monotonic()
                text, chunk = await _changed(service, screen, name, text)
            if screen.series and (points := screen.series(at)):
                at = points[-1][0] or 0.0
                chunk += b"event: series\ndata: %b\n\n" % orjson.dumps(points)
            if not chunk and time.monotonic() - said_at > _SILENCE_S:
                chunk = b": still here\n\n"
            if chunk:
                said_at = time.monotonic()
                yield chunk
            await sampler.next_look(1)


async def _changed(service: Service, screen: Screen, name: str, text: str) -> tuple[str, bytes]:
    """The live part, and what tells of its change; what does not answer changes nothing."""
    try:
        fresh = await _look(service, screen, name)
    except (CrawlstreamError, RedisError):
        return text, b""
    if fresh == text:
        return text, b""
    lines = fresh.encode().splitlines()
    return fresh, b"event: live\n" + b"".join(b"data: %b\n" % line for line in lines) + b"\n"
