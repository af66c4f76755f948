"""Forward one request by its whole URL, and its answer.

Each is read to its end and no further: the next request on the connection may be for another
host, and must not be sent to this one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import h11
from scrapy.http import Headers

from crawling.egress.blame import blame_in
from crawling.failures import ProxyTrouble
from crawling.gateway.dialer import READ
from crawling.gateway.relay import TunnelTraffic
from crawling.gateway.visitor import LONGEST_HEAD, GatewayRefused, GatewayVisitor

_OF_THE_CONNECTION: Final = frozenset(
    {
        b"connection", b"expect", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
"""Headers that are for the next one on the way, and go no further."""

Pairs = list[tuple[bytes, bytes]]


class Forward(TunnelTraffic):
    """A request on its way."""

    _speech: h11.Connection

    async def run(
        self,
        visitor: GatewayVisitor,
        request: h11.Request,
        *,
        asked: str,
        extra: Iterable[tuple[str, str]],
    ) -> None:
        """Send the request to the target or a proxy, and return its answer to the client.

        ``asked`` is the target of its first line, ``extra`` are headers for a proxy. ProxyTrouble:
        the proxy itself answers that it has no response.
        """
        self._speech = h11.Connection(h11.CLIENT, max_incomplete_event_size=LONGEST_HEAD)
        headers = _end_to_end(request.headers.raw_items())
        if any(name == b"transfer-encoding" for name, _ in request.headers):
            headers.append((b"Transfer-Encoding", b"chunked"))
        headers += [(name.encode(), value.encode()) for name, value in extra]
        headers.append((b"Connection", b"close"))
        try:
            head = h11.Request(method=request.method, target=asked, headers=headers)
            await self._send(head)
            await self._send_body(visitor)
            await self._answer(visitor, is_whole=asked.startswith("http:"))
        except h11.RemoteProtocolError as error:
            self.lost()
            raise GatewayRefused(502, "answer", "http_response_incomplete") from error

    async def _send(self, event: h11.Event) -> None:
        if data := self._speech.send(event):
            self.write(data)
            await self.link.writer.drain()

    async def _send_body(self, visitor: GatewayVisitor) -> None:
        while isinstance(event := await visitor.event(), h11.Data):
            await self._send(h11.Data(data=event.data))
        await self._send(h11.EndOfMessage())

    async def _event(self) -> h11.Event | None:
        while (event := self._speech.next_event()) is h11.NEED_DATA:
            data, self.link.early = self.link.early, b""
            data = data or await self.link.reader.read(READ)
            if not self.came(len(data)):
                raise GatewayRefused(502, "bytes", "http_response_body_size")
            self._speech.receive_data(data)
        return event if isinstance(event, h11.Event) else None

    async def _answer(self, visitor: GatewayVisitor, *, is_whole: bool) -> None:
        response = await self._event()
        while isinstance(response, h11.InformationalResponse):
            response = await self._event()
        if not isinstance(response, h11.Response):
            raise GatewayRefused(502, "answer", "http_response_incomplete")
        pairs = response.headers.raw_items()
        blame = blame_in(response.status_code, Headers(pairs)) if is_whole else None
        if blame:
            raise ProxyTrouble(blame, f"the proxy answered {response.status_code}")
        headers = _end_to_end(pairs)
        status = response.status_code
        await visitor.send(
            h11.Response(status_code=status, headers=headers, reason=response.reason)
        )
        while isinstance(event := await self._event(), h11.Data):
            await visitor.send(h11.Data(data=event.data))
        await visitor.send(h11.EndOfMessage())


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """Return the headers for the other end, without those of the connection."""
    pairs = list(headers)
    named = {
        name.strip().lower()
        for key, value in pairs
        if key.lower() == b"connection"
        for name in value.split(b",")
    }
    return [
        (name, value)
        for name, value in pairs
        if name.lower() not in _OF_THE_CONNECTION and name.lower() not in named
    ]
