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
from rest_service.dashboard.outcome import outcome_of
from rest_service.dashboard.render import render, render_live
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused
from rest_service.http.gate import CLIENT
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
    """Queries the cluster for the values of the template."""
    series: Since | None = None
    """Returns the points of its charts after a time."""
    every_s: float = 1.0
    """Seconds between updates; expensive screens are updated less often."""


@dataclass(frozen=True, slots=True)
class WatchedScreen:
    """A screen that a client watches."""

    screen: Screen
    client: Client
    path: str

    @property
    def name(self) -> tuple[str, frozenset[str]]:
        """Name under which clients with the same view share the result."""
        return self.path, self.client.appids


async def show(request: Request, service: Service, screen: Screen) -> Response:
    """Return the screen, or a stream of its changes if the client accepts server-sent events."""
    client: Client = request.scope[CLIENT]
    if "text/event-stream" not in request.headers.get("accept", ""):
        values = {"said": outcome_of(request), **await screen.fill()}
        return render(screen.template, screen.here, client=client, **values)
    if service.sampler.watchers >= MAX_WATCHERS:
        raise RequestRefused(
            429, f"Too many open live views: at most {MAX_WATCHERS}.", code="too_many_streams"
        )
    # Errors of the request are returned before the stream begins.
    watched = WatchedScreen(screen, client, f"{request.url.path}?{request.url.query}")
    await _look(service, watched)
    return StreamingResponse(
        _changes(service, watched),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def _look(service: Service, watched: WatchedScreen) -> str:
    """Return the present live part, the same for all clients that watch this screen."""

    async def ask() -> str:
        values = await watched.screen.fill()
        return render_live(watched.screen.template, client=watched.client, **values)

    text: str = await service.sampler.shared(watched.name, ask)
    return text


async def _changes(service: Service, watched: WatchedScreen) -> AsyncIterator[bytes]:
    sampler, screen = service.sampler, watched.screen
    text, at = "", 0.0
    looked_at = said_at = 0.0
    with sampler.watching():
        while not service.stopping.is_set():
            chunk = b""
            if time.monotonic() - looked_at >= screen.every_s - 0.1:
                looked_at = time.monotonic()
                text, chunk = await _changed(service, watched, text)
            if screen.series and (points := screen.series(at)):
                at = points[-1][0] or 0.0
                chunk += b"event: series\ndata: %b\n\n" % orjson.dumps(points)
            if not chunk and time.monotonic() - said_at > _SILENCE_S:
                chunk = b": still here\n\n"
            if chunk:
                said_at = time.monotonic()
                yield chunk
            await sampler.next_look(1)


async def _changed(service: Service, watched: WatchedScreen, text: str) -> tuple[str, bytes]:
    """Return the live part and the event of its change; on an error, nothing has changed."""
    try:
        fresh = await _look(service, watched)
    except (CrawlstreamError, RedisError):
        return text, b""
    if fresh == text:
        return text, b""
    lines = fresh.encode().splitlines()
    return fresh, b"event: live\n" + b"".join(b"data: %b\n" % line for line in lines) + b"\n"
