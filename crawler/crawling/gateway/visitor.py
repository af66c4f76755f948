"""Client of the gateway: one connection, with one request after the other."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from base64 import b64decode
from typing import Final

import h11

from crawling.gateway.dialer import READ
from crawling.gateway.passes import Target

LONGEST_HEAD: Final = 256 * 1024
_HEAD_S = 10.0
"""Seconds to wait for the head of a first request."""
_IDLE_S = 60.0
"""Seconds to wait for the next request."""
_HIGHEST_PORT = 65_535


class GatewayRefused(Exception):
    """Something is not to be had by this gateway; ``error`` as RFC 9209 names it."""

    def __init__(self, status: int, reason: str, error: str = "proxy_internal_error") -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.error = error


class GatewayVisitor:
    """Speaks HTTP with an engine."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._speech = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        self._wait_s = _HEAD_S

    async def request(self) -> h11.Request | None:
        """Return the next request; None: there is no more."""
        try:
            async with asyncio.timeout(self._wait_s):
                request = await self.event()
        except TimeoutError:
            return None
        if not isinstance(request, h11.Request):
            return None
        if request.method == b"CONNECT":
            await self.event()
        return request

    async def event(self) -> h11.Event | None:
        """Return the next event of a request; None: there is none."""
        while (event := self._speech.next_event()) is h11.NEED_DATA:
            if self._speech.they_are_waiting_for_100_continue:
                await self.send(h11.InformationalResponse(status_code=100, headers=[]))
            self._speech.receive_data(await self.reader.read(READ))
        return event if isinstance(event, h11.Event) else None

    async def send(self, event: h11.Event) -> None:
        """Answer, or a part of that."""
        if data := self._speech.send(event):
            self.writer.write(data)
            await self.writer.drain()

    async def refuse(self, status: int, error: str) -> None:
        """Say no, if it is not too late for that."""
        if self._speech.our_state is not h11.SEND_RESPONSE:
            self.abort()
            return
        headers = [("Proxy-Status", f"crawlstream; error={error}"), ("Content-Length", "0")]
        if status == 407:
            headers.append(("Proxy-Authenticate", 'Basic realm="crawlstream"'))
        await self.send(h11.Response(status_code=status, headers=headers))
        await self.send(h11.EndOfMessage())

    async def accept(self) -> bytes:
        """A tunnel stands; what has already come for it."""
        await self.send(h11.Response(status_code=200, headers=[]))
        return self._speech.trailing_data[0]

    def is_done(self) -> bool:
        """Return whether nothing can be asked for on this connection any more."""
        if (self._speech.our_state, self._speech.their_state) != (h11.DONE, h11.DONE):
            return True
        self._speech.start_next_cycle()
        self._wait_s = _IDLE_S
        return False

    def abort(self) -> None:
        """End it at once."""
        self.writer.transport.abort()


def login_of(request: h11.Request) -> tuple[str, str]:
    """User name and password; both are empty where there are none."""
    for name, value in request.headers:
        if name == b"proxy-authorization" and value[:6].lower() == b"basic ":
            try:
                user, _, password = b64decode(value[6:], validate=True).decode().partition(":")
            except ValueError:
                break
            return user, password
    return "", ""


def target_of(request: h11.Request) -> tuple[Target, str]:
    """Return target and path of a request; "" is a tunnel. Refused without a target."""
    asked = request.target.decode("ascii")
    if request.method == b"CONNECT":
        return _place(asked, 0), ""
    scheme, sign, rest = asked.partition("://")
    if not sign or scheme.lower() != "http":
        raise GatewayRefused(400, "method", "http_request_error")
    rest = rest.partition("#")[0]
    end = next((at for at, char in enumerate(rest) if char in "/?"), len(rest))
    path = rest[end:]
    return _place(rest[:end], 80), path if path.startswith("/") else f"/{path}"


def _place(authority: str, usual_port: int) -> Target:
    host, sign, port = authority.rpartition(":")
    if not sign or authority.endswith("]"):
        host, port = authority, ""
    number = int(port) if port.isdecimal() else usual_port if not port else 0
    if not host or "@" in host or not 0 < number <= _HIGHEST_PORT:
        raise GatewayRefused(400, "method", "http_request_error")
    return (host.strip("[]").lower(), number)
