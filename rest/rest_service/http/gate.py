"""The gate before every handler: identity, role, rate and size of a request, and its metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import lru_cache

import structlog
from prometheus_client import Counter, Histogram
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rest_service.http.access import (
    FORMS,
    Client,
    Guesses,
    Keyring,
    RateLimiter,
    Role,
    check_site,
    is_of_applications,
    role_needed,
)
from rest_service.http.envelope import RequestRefused, failure
from rest_service.metrics import REQUESTS, SECONDS

CLIENT = "crawlstream.client"
"""Where a request carries its :class:`~rest_service.http.access.Client`."""

BODY_TIMEOUT_S = 30.0
"""Seconds until a body that has not arrived is refused, so that slow senders use no memory."""

BODIES_BYTES = 64 << 20
"""Bytes of all bodies in progress together; one body of the largest size always fits."""
SMALL_BODY_BYTES = 64 << 10
ANNOUNCEMENT_BYTES = 1 << 20
_LARGE = frozenset({"/feed", "/v2/crawls", "/v2/check", "/v2/scrape/batch", "/v2/rejected/replay"})
"""Routes that accept more than ``SMALL_BODY_BYTES``, besides those of schedules."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    # No other site gets it; without any, browsers call the origin of forms "null".
    "Referrer-Policy": "same-origin",
}
"""Headers of every answer but JSON, which browsers only read; an answer may set its own."""
_OF_ALL = (
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
)
_OF_PAGES = tuple((n.lower().encode(), v.encode()) for n, v in SECURITY_HEADERS.items())
_WHO = (b"www-authenticate", b'Basic realm="crawlstream: any name, an API key as password"')
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})

log = structlog.get_logger()


class Gate:
    """Passes a request to ``app``, or answers with its refusal."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        keyring: Keyring,
        limiter: RateLimiter,
        max_body_bytes: int,
        refuse: Callable[[Request, RequestRefused], Response] = lambda _, refused: failure(refused),
    ) -> None:
        self._app = app
        self._refuse = refuse
        self._keyring = keyring
        self._limiter = limiter
        self._guesses = Guesses()
        self._max_body_bytes = max_body_bytes
        self._budget = _Budget(max(BODIES_BYTES, max_body_bytes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()
        status = 500

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _secure(message, scope["path"])
            await send(message)

        try:
            await self._pass(scope, receive, send_noting)
        finally:
            _count(scope, status, time.perf_counter() - started_at)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            self._judge(request)
        except RequestRefused as refused:
            await self._refuse(request, refused)(scope, receive, send)
            return
        body = _Body(receive, self._most_bytes(scope["path"]), self._budget)
        try:
            await self._app(scope, body.receive, send)
        finally:
            body.release()

    def _most_bytes(self, path: str) -> int:
        """Return the largest body that a route accepts."""
        route = path.removeprefix(FORMS)
        if route == "/v2/indexnow":
            return min(ANNOUNCEMENT_BYTES, self._max_body_bytes)
        is_large = route in _LARGE or route.startswith("/v2/schedules/")
        return self._max_body_bytes if is_large else min(SMALL_BODY_BYTES, self._max_body_bytes)

    def _judge(self, request: Request) -> None:
        """Identify the client; RequestRefused gives the reason if it may not do this."""
        peer = request.client.host if request.client else "unknown"
        check_site(request, is_keyless=self._keyring.is_empty)
        client = request.scope[CLIENT] = self._identify(request, peer)
        self._admit(client.name, client.rate)
        path = request.scope["path"]
        needed = role_needed(request.method, path)
        if client.role < needed:
            status = 401 if client.role is Role.ANYONE else 403
            code = "unauthorized" if status == 401 else "forbidden"
            raise RequestRefused(
                status, f"This request needs the role {needed.name.lower()}.", code=code
            )
        if client.appids and needed is not Role.ANYONE and not is_of_applications(path):
            raise RequestRefused(
                403,
                "This API key is limited to applications and cannot access the whole cluster.",
                code="forbidden_appid",
            )
        length = request.headers.get("content-length", "")
        most = self._most_bytes(path)
        if length.isdecimal() and int(length) > most:
            raise _too_large(most)

    def _identify(self, request: Request, peer: str) -> Client:
        try:
            client = self._keyring.identify(request)
        except RequestRefused:
            # Guesses count as requests, too.
            self._admit(peer)
            self._guesses.failed(peer)
            raise
        if client.role is not Role.ANYONE and not self._keyring.is_empty:
            self._guesses.worked(client)
        return client

    def _admit(self, client: str, rate: float | None = None) -> None:
        if not self._limiter.admit(client, rate):
            raise RequestRefused(429, "Too many requests.", code="too_many_requests")


class _Budget:
    """Bytes that the bodies of all requests in progress share."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, count: int) -> None:
        """Take bytes that have arrived; raise RequestRefused (503) if too few are left."""
        if count > self._left:
            raise RequestRefused(503, "Too many large requests at a time: try again.", code="busy")
        self._left -= count

    def give_back(self, count: int) -> None:
        """Return the bytes of a request."""
        self._left += count


class _Body:
    """A request's body while it arrives: limited in size and in time."""

    def __init__(self, receive: Receive, max_bytes: int, budget: _Budget) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._budget = budget
        self._size = 0
        self._is_whole = False
        self._deadline = time.monotonic() + BODY_TIMEOUT_S

    async def receive(self) -> Message:
        if self._is_whole:
            # After the body, only the client's disconnect is received.
            return await self._receive()
        try:
            async with asyncio.timeout(self._deadline - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            raise RequestRefused(
                408, "Timeout while reading the request body.", code="timeout"
            ) from None
        count = len(message.get("body", b""))
        if self._size + count > self._max_bytes:
            raise _too_large(self._max_bytes)
        self._budget.take(count)
        self._size += count
        self._is_whole = not message.get("more_body", False)
        return message

    def release(self) -> None:
        """Return the body's bytes to the budget."""
        self._budget.give_back(self._size)
        self._size = 0


def _too_large(limit: int) -> RequestRefused:
    return RequestRefused(413, f"The request body exceeds {limit} bytes.", code="too_large")


def _secure(message: Message, path: str) -> None:
    """Add security headers, as bytes: they are much of the cost of a small answer."""
    headers: list[tuple[bytes, bytes]] = message["headers"]
    known = dict(headers)
    headers += _OF_ALL
    if known.get(b"content-type") != b"application/json":
        headers += [one for one in _OF_PAGES if one[0] not in known]
    if b"cache-control" not in known:
        is_file = path.startswith("/static/")
        headers.append((b"cache-control", b"no-cache" if is_file else b"no-store"))
    if message["status"] == 401:
        headers.append(_WHO)


def _count(scope: Scope, status: int, seconds: float) -> None:
    route = getattr(scope.get("route"), "path", "other")
    # Clients make up methods: each would be a series of its own.
    method = scope["method"] if scope["method"] in _METHODS else "other"
    counter, histogram = _figures_of(method, route, status)
    counter.inc()
    histogram.observe(seconds)
    log.debug("request", method=method, route=route, status=status, seconds=seconds)


@lru_cache(1024)
def _figures_of(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    return REQUESTS.labels(method, route, status), SECONDS.labels(route)
