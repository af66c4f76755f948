"""``/health`` and ``/metrics`` of one process, on its own event loop.

The event loop is the process's own on purpose: a process whose loop hangs does not answer, and is
restarted. ``/health`` and ``/health/live`` report whether the process is alive, ``/health/ready``
whether it can work now.

New connections are always served: each request has a deadline, and above the maximum number of
connections the oldest one is closed.

On a loopback address, only requests for names of this machine are answered. So a web page whose own
name points here (DNS rebinding) cannot read the state of this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import orjson
import structlog
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from crawlstream.boot.loopback import is_loopback, is_loopback_host
from crawlstream.boot.metrics import PROCESS_WAITING
from crawlstream.errors import ConfigError

REQUEST_TIMEOUT_S = 5.0
"""From the connection to the end of the answer."""
MAX_CONNECTIONS = 256

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Health:
    """State that a process reports about itself.

    ``alive`` false means that only a restart helps; it is answered 503. A process that waits for
    another service is alive, and names that service in ``waiting_for``. A process that works, but
    leaves out something that only a person can decide, reports it in ``problem``: a restart does
    not help.
    """

    alive: bool = True
    waiting_for: str = ""
    problem: str = ""
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """``ok``, ``degraded``, ``waiting`` or ``dead``."""
        if not self.alive:
            return "dead"
        if self.waiting_for:
            return "waiting"
        return "degraded" if self.problem else "ok"


@asynccontextmanager
async def serve(
    port: int,
    check: Callable[[], Health],
    *,
    host: str = "127.0.0.1",
    or_any_port: bool = False,
) -> AsyncIterator[None]:
    """Answer for the length of the block; port 0 serves nothing.

    ConfigError: the host is none of this machine's addresses, or the port is taken; with
    ``or_any_port`` a free one is used then, and the log says which.
    """
    if port == 0:
        yield
        return

    asked: dict[asyncio.StreamWriter, None] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(asked) >= MAX_CONNECTIONS:
            oldest = next(iter(asked))
            del asked[oldest]
            oldest.transport.abort()
        asked[writer] = None
        try:
            with contextlib.suppress(OSError, TimeoutError, EOFError, asyncio.LimitOverrunError):
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(_answer(head, check, is_local=is_loopback(host)))
                    writer.close()
                    await writer.wait_closed()
        finally:
            asked.pop(writer, None)
            writer.transport.abort()

    async with await _listen(answer, host, port, or_any_port=or_any_port):
        yield


_Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _listen(
    answer: _Answer, host: str, port: int, *, or_any_port: bool
) -> asyncio.AbstractServer:
    try:
        return await asyncio.start_server(answer, host, port, limit=8192)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise ConfigError(f"CRAWLSTREAM_METRICS_HOST: {host}: {error.strerror}") from error
        if not or_any_port:
            raise ConfigError(f"CRAWLSTREAM_METRICS_PORT: port {port} is already in use") from error
    server = await asyncio.start_server(answer, host, 0, limit=8192)
    used = server.sockets[0].getsockname()[1]
    log.info("listen", service="metrics", outcome="port_in_use", asked=port, port=used)
    return server


def _answer(head: bytes, check: Callable[[], Health], *, is_local: bool) -> bytes:
    request, *lines = head.decode("latin-1").split("\r\n")
    fields = [line.partition(":") for line in lines]
    hosts = [value.strip() for name, _, value in fields if name.lower() == "host"]
    if is_local and not all(map(is_loopback_host, hosts)):
        return _http(b"403 Forbidden", b"text/plain", b"only names of this machine are answered\n")
    return _response(request.partition(" ")[2].partition(" ")[0].encode("latin-1"), check)


def _response(path: bytes, check: Callable[[], Health]) -> bytes:
    if path == b"/metrics":
        PROCESS_WAITING.set(bool(check().waiting_for))
        return _http(b"200 OK", CONTENT_TYPE_LATEST.encode(), generate_latest())
    if path in {b"/health", b"/health/live", b"/health/ready"}:
        health = check()
        body = {"status": health.status, "waiting_for": health.waiting_for, **health.details}
        if health.problem:
            body["problem"] = health.problem
        is_ready = health.alive and not health.waiting_for
        is_well = is_ready if path == b"/health/ready" else health.alive
        status = b"200 OK" if is_well else b"503 Service Unavailable"
        return _http(status, b"application/json", orjson.dumps(body, default=str))
    return _http(b"404 Not Found", b"text/plain", b"not found\n")


def _http(status: bytes, kind: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (status, kind, len(body)) + body
