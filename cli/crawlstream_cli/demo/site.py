"""The bundled site's HTTP server: HTTP/1.1 with keep-alive, small and quick.

It serves a :class:`~crawlstream_cli.demo.web.Web` on each of its loopback addresses and notes every
request in the access log. ``/echo`` on every host answers with the request's own head.
"""

from __future__ import annotations

import asyncio
import re
import resource
import socket
import ssl
import sys
from functools import partial
from pathlib import Path
from typing import cast

from crawlstream.errors import SetupError
from crawlstream_cli.demo.access_log import FURTHER, AccessLog, LoggedRequest
from crawlstream_cli.demo.arrival import StampedSocket
from crawlstream_cli.demo.http_reply import HttpReply, answer_script, not_found, render, reply
from crawlstream_cli.demo.web import MOVED_ROBOTS, OPEN_ROBOTS, Web

FLUSH_S = 0.05
"""The access log on disk is at most this old."""

_NO_LUCK_S = 0.01
_MAX_HEAD = 64 * 1024
_MAX_BODY = 4 * 1024 * 1024
_REQUEST_LINE = re.compile(rb"(\S+) (\S+) HTTP/1\.([01])\r\n")
_HOST = re.compile(rb"(?i)\r\nhost:[ \t]*([^\r\n:]*)")
_AGENT = re.compile(rb"(?i)\r\nuser-agent:[ \t]*([^\r\n]*)")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*(\d+)")
_AUTHORITY = re.compile(rb"(?i)\r\nhost:[ \t]*([^\r\n]*)")
_OFFER = "crawler-exact-price"
_SIGNATURE = re.compile(
    rb"(?i)\r\n(signature(?:-input|-agent)?|crawler-exact-price):[ \t]*([^\r\n]*)"
)
_CLOSE = re.compile(rb"(?i)\r\nconnection:[ \t]*close")
_CHUNKED = re.compile(rb"(?i)\r\ntransfer-encoding:")


class Site:
    """A server of one web.

    If ``web.port`` is taken or an address does not exist here, :meth:`start` raises SetupError with
    the remedy. With a ``certificate``, a PEM file with its key, visitors must speak TLS.
    """

    def __init__(self, web: Web, log: AccessLog, certificate: Path | None = None) -> None:
        self.web = web
        self.log = log
        self._tls = _tls(certificate) if certificate else None
        self._replies: dict[tuple[str, str], HttpReply] = {}
        self._visited: set[tuple[str, str]] = set()
        self._listeners: list[socket.socket] = []
        self.connections: set[asyncio.Transport] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Listen on every host of the web."""
        _allow_sockets(len(self.web.hosts))
        try:
            for host in self.web.hosts:
                self._listeners.append(_listen(host, self.web.port))
        except SetupError:
            await self.stop()
            raise
        taking = [self._keep_taking(listener) for listener in self._listeners]
        self._tasks = [asyncio.create_task(each) for each in (*taking, self._keep_flushing())]

    async def stop(self) -> None:
        """Close every socket and the log."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        for connection in self.connections:
            connection.abort()
        # The loop says goodbye to each connection in its next round.
        await asyncio.sleep(0)
        self.log.close()

    def answer(self, host: str, path: str, offer: str = "") -> HttpReply:
        """The reply for one request; a flaky page counts its first visitor.

        ``offer``: the price that the request offers.
        """
        found = self._replies.get((host, path))
        if found is None:
            found = self._make(host, path)
        if found.first is not None and (host, path) not in self._visited:
            self._visited.add((host, path))
            return found.first
        return found if found.unpaid is None or offer == found.charged else found.unpaid

    def _make(self, host: str, path: str) -> HttpReply:
        page = self.web.find(host, path)
        if page is not None:
            made = self._replies[host, path] = render(self.web, page)
            return made
        if host in self.web.hosts and path in {"/robots.txt", MOVED_ROBOTS, OPEN_ROBOTS}:
            return _robots(self.web, host, path)
        if path.startswith(FURTHER):
            number, _, rest = path.removeprefix(FURTHER).partition("/")
            page = self.web.find(host, f"/{rest}")
            return answer_script(self.web, page, number) if page else not_found()
        return not_found()

    async def _keep_taking(self, listener: socket.socket) -> None:
        """Take visitors as they come."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                visitor = StampedSocket.over((await loop.sock_accept(listener))[0])
                connection = partial(_Connection, self, visitor)
                await loop.connect_accepted_socket(connection, visitor, ssl=self._tls)
            except OSError:
                # It has left again, or there is no room for more: the next may have more luck.
                await asyncio.sleep(_NO_LUCK_S)

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            self.log.flush()


def _robots(web: Web, host: str, path: str) -> HttpReply:
    """The robots.txt of a host, or where it leads to."""
    if path == "/robots.txt" and web.moves_robots:
        return reply(301, b"", "text/plain", f"Location: {web.robots_target(host)}")
    robots = "User-agent: *\nAllow: /\n" if path == OPEN_ROBOTS else web.robots(host)
    return reply(200, robots.encode(), "text/plain") if robots else not_found()


class _Connection(asyncio.Protocol):
    """A connection of a visitor: requests one after the other."""

    def __init__(self, site: Site, visitor: StampedSocket) -> None:
        self._site = site
        self._visitor = visitor
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._delayed: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._site.connections.add(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._site.connections.discard(self._transport)
        self._transport = None
        if self._delayed:
            self._delayed.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._serve()

    def _serve(self) -> None:
        """Answer every request that is complete, unless a slow reply is still in progress."""
        while self._received and self._delayed is None and self._transport is not None:
            head, separator, rest = self._received.partition(b"\r\n\r\n")
            if not separator:
                if len(head) > _MAX_HEAD:
                    self._refuse(431)
                return
            length = _LENGTH.search(head)
            body_bytes = int(length[1]) if length else 0
            if body_bytes > _MAX_BODY or _CHUNKED.search(head):
                self._refuse(413)
                return
            if len(rest) < body_bytes:
                return
            self._received = rest[body_bytes:]
            self._handle(head + b"\r\n")

    def _handle(self, head: bytes) -> None:
        mono, wall = self._visitor.arrived_ms
        line = _REQUEST_LINE.match(head)
        if line is None:
            self._refuse(400)
            return
        method, path = line[1].decode("latin-1"), line[2].decode("latin-1")
        host = _text(_HOST.search(head))
        authority, signed = _signed(head)
        offer = signed.get(_OFFER, "")
        answer = self._site.answer(host, path, offer) if path != "/echo" else _echo(head)
        agent = _text(_AGENT.search(head))
        told = mono, wall, host, method, path, answer.status, agent, authority, signed
        self._site.log.note(LoggedRequest(*told, answer.charged))
        closes = line[3] == b"0" or _CLOSE.search(head) is not None
        if answer.delay_s:
            loop = asyncio.get_running_loop()
            late = partial(self._late, answer, method, closes=closes)
            self._delayed = loop.call_later(answer.delay_s, late)
        else:
            self._send(answer, method, closes=closes)

    def _late(self, answer: HttpReply, method: str, *, closes: bool) -> None:
        self._delayed = None
        self._send(answer, method, closes=closes)
        self._serve()

    def _send(self, answer: HttpReply, method: str, *, closes: bool) -> None:
        if self._transport is None:
            return
        self._transport.write(answer.head if method == "HEAD" else answer.head + answer.body)
        if closes:
            self._transport.close()

    def _refuse(self, status: int) -> None:
        self._received = b""
        self._send(reply(status, b"", "text/plain", "Connection: close"), "GET", closes=True)


def _echo(head: bytes) -> HttpReply:
    return reply(200, head, "text/plain; charset=utf-8")


def _signed(head: bytes) -> tuple[str, dict[str, str]]:
    """Return the authority and the signature of a request; nothing if it has none."""
    found = {
        name.decode().lower(): text.decode("latin-1") for name, text in _SIGNATURE.findall(head)
    }
    return (_text(_AUTHORITY.search(head)) if found else ""), found


def _text(match: re.Match[bytes] | None) -> str:
    return match[1].decode("latin-1") if match else ""


def check_addresses(web: Web) -> None:
    """Raise SetupError, with what to do, unless this machine can serve every host of a web."""
    for host in web.hosts:
        _listen(host, web.port).close()


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket; SetupError says why there can be none."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
        listener.settimeout(0)
    except OSError as error:
        listener.close()
        if sys.platform != "linux" and host != "127.0.0.1":
            raise SetupError(
                f"the demo site needs {host}, which only Linux answers on: use Linux, or Docker"
            ) from error
        raise SetupError(f"the demo site cannot listen on {host}:{port}: {error}") from error
    return listener


def _tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


def _allow_sockets(hosts: int) -> None:
    """Raise the limit of open files towards what the system grants; a wide web needs it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hosts + 4096
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


async def serve(web: Web, log_file: Path, certificate: Path | None = None) -> None:
    """Serve until cancelled."""
    site = Site(web, AccessLog(log_file), certificate)
    await site.start()
    try:
        await asyncio.Event().wait()
    finally:
        await site.stop()
