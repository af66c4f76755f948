"""A web that speaks HTTP/2 with clients that offer it, and has faults of HTTP/2 on demand.

``H2Site.troubles`` says what happens at a path instead of an answer:

==================== ===============================================================================
``goaway``           the connection is closed with GOAWAY before there is an answer
``leave``            the answer comes, then GOAWAY; the connection stays open
``abort``            RST_STREAM is all that comes
``reset``            the head comes, and a part of the body; then RST_STREAM
``refuse``           RST_STREAM says that the request was not looked at
``old``              RST_STREAM wants HTTP/1.1
``stall``            the head comes, and a part of the body; nothing more
``noise``            bytes that are not a frame
``short``            the stream ends before the length that the head promised
``huge``             a head of 300 kB
``elsewhere``        the answer comes, and frames that offer to answer for any other host
``hints``            103, then the answer, then trailers
==================== ===============================================================================
"""

from __future__ import annotations

import ssl
import struct
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, RequestReceived, StreamEnded
from h2.exceptions import ProtocolError
from hyperframe.frame import GoAwayFrame

from crawlstream_chaos.scripted_site import Answer, Page, SeenRequest
from support.crawler.tls import TlsSite

_ORIGIN = 0x0C
"""Type of the frame of RFC 8336."""
Fields = list[tuple[str, str]]


class H2Site(TlsSite):
    """Answers what a test's pages say, by ALPN over HTTP/2."""

    def __init__(self, pages: Mapping[str, Page], port: int = 0) -> None:
        super().__init__(pages, port)
        self.context.set_alpn_protocols(["h2", "http/1.1"])
        self.troubles: dict[str, str] = {}
        self.makes_room = True
        """True: more of a request's body may come than the first 64 KiB."""
        self.bodies: list[bytes] = []
        self.has_left = False
        """True: it has announced the end of a connection."""
        self.most_at_once = 0
        """Maximum number of requests in progress on one connection."""
        self.protocols: Counter[str] = Counter()
        """Connections by what was agreed on."""
        self.connections: list[list[str]] = []
        """Hosts that were asked for on each."""

    def speak(self, secret: ssl.SSLSocket) -> None:
        """Serve one connection."""
        protocol = secret.selected_alpn_protocol() or ""
        self.protocols[protocol] += 1
        if protocol == "h2":
            Talk(self, secret).run()
        else:
            super().speak(secret)


class Talk:
    """A connection; requests are answered one after the other."""

    def __init__(self, site: H2Site, secret: ssl.SSLSocket) -> None:
        self._site = site
        self._secret = secret
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
        self._open: dict[int, tuple[SeenRequest, bytearray]] = {}
        self._hosts: list[str] = []
        self._is_over = False
        site.connections.append(self._hosts)

    def run(self) -> None:
        """Serve until one side ends it."""
        self._h2.initiate_connection()
        self.flush()
        with suppress(ProtocolError):
            while not self._is_over and self._read():
                pass

    def flush(self) -> None:
        """Send what is to be sent."""
        self._secret.sendall(self._h2.data_to_send())

    def _read(self) -> bool:
        data = self._secret.recv(65536)
        for event in self._h2.receive_data(data) if data else ():
            self._take(event)
        self.flush()
        return bool(data)

    def _take(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            pairs = [(str(name), str(value)) for name, value in event.headers or ()]
            headers = {name: value for name, value in pairs if name[0] != ":"}
            asked = dict(pairs)
            headers["host"] = asked[":authority"]
            host = asked[":authority"].partition(":")[0]
            visit = SeenRequest(host, asked[":path"], time.time(), headers, asked[":method"])
            self._open[event.stream_id or 0] = visit, bytearray()
            self._hosts.append(host)
            self._site.most_at_once = max(self._site.most_at_once, len(self._open))
        elif isinstance(event, DataReceived):
            self._open[event.stream_id or 0][1].extend(event.data or b"")
            if self._site.makes_room:
                size = event.flow_controlled_length or 0
                self._h2.acknowledge_received_data(size, event.stream_id or 0)
        elif isinstance(event, StreamEnded):
            self._answer(event.stream_id or 0)

    def _answer(self, stream: int) -> None:
        visit, body = self._open[stream]
        answer = self._site.answer_to(visit)
        self._site.bodies.append(bytes(body))
        with suppress(ProtocolError):  # The visitor may be gone by now.
            trouble = getattr(self, f"_{self._site.troubles.get(visit.path, 'usual')}")
            trouble(stream, answer, visit)
        self._open.pop(stream, None)

    def _usual(self, stream: int, answer: Answer, visit: SeenRequest) -> None:
        if answer.is_reset or answer.raw is not None:
            self._is_over = True
            return
        self._head(stream, answer)
        for piece in answer.stream or [b"" if visit.method == "HEAD" else answer.body]:
            self._send(stream, piece)
        self._h2.end_stream(stream)

    def _head(self, stream: int, answer: Answer, *more: tuple[str, str]) -> None:
        fields: Fields = [(":status", str(answer.status))]
        if not answer.stream and "Content-Length" not in answer.headers:
            fields.append(("content-length", str(len(answer.body))))
        pairs = (*answer.headers.items(), *answer.more_headers, *more)
        self._h2.send_headers(stream, [*fields, *((k.lower(), v) for k, v in pairs)])
        self.flush()

    def _send(self, stream: int, data: bytes) -> None:
        """A part of a body, as the visitor has room for it."""
        while data:
            size = min(
                self._h2.local_flow_control_window(stream),
                self._h2.max_outbound_frame_size,
                len(data),
            )
            if size:
                self._h2.send_data(stream, data[:size])
                self.flush()
                data = data[size:]
            elif not self._read():
                raise ConnectionError

    # Troubles.

    def _goaway(self, stream: int, answer: Answer, visit: SeenRequest) -> None:
        self._h2.close_connection(last_stream_id=0)
        self.flush()
        self._is_over = True

    def _leave(self, stream: int, answer: Answer, visit: SeenRequest) -> None:
        self._usual(stream, answer, visit)
        self.flush()
        self._secret.sendall(GoAwayFrame(0, last_stream_id=stream).serialize())
        self._site.has_left = True

    def _reset(self, stream: int, answer: Answer, visit: SeenRequest) -> None:
        self._head(stream, answer)
        self._send(stream, answer.body[:10])
        self._h2.reset_stream(stream, ErrorCodes.INTERNAL_ERROR)

    def _refuse(self, stream: int, answer: Answer, visit: SeenRequest) -> None:
        self._h2.reset_stream(stream, ErrorCodes.REFUSED_STREAM)

    def _old(self, stream: int, answer: Answer, visit: SeenRequest) -> None:
        self._h2.reset_stream(stream, ErrorCodes.HTTP_1_1_REQUIRED)

    def _stall(self, stream: int, answer: Answer, visit: SeenRequest) -> None:
        self._head(stream, answer)
        self._send(stream, answer.body[:10])

    def _noise(self, stream: int, answer: Answer, visit: SeenRequest) -> None:
        self._secret.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)

    def _short(self, stream: int, answer: Answer, visit: SeenRequest) -> None:
        self._head(stream, answer)
        self._send(stream, answer.body[:10])
        self._h2.end_stream(stream)

    def _huge(self, stream: int, answer: Answer, visit: SeenRequest) -> None:
        self._head(stream, answer, *((f"x-{number}", "y" * 3000) for number in range(100)))
        self._h2.end_stream(stream)

    def _elsewhere(self, stream: int, answer: Answer, visit: SeenRequest) -> None:
        origins, field = b"", b'h2="127.0.0.1:%d"; ma=3600' % self._site.port
        for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            origin = f"https://{host}:{self._site.port}".encode()
            origins += len(origin).to_bytes(2, "big") + origin
            self._h2.advertise_alternative_service(field, origin)
        self.flush()
        self._secret.sendall(struct.pack("!BHBBL", 0, len(origins), _ORIGIN, 0, 0) + origins)
        self._usual(stream, answer, visit)

    def _abort(self, stream: int, answer: Answer, visit: SeenRequest) -> None:
        self._h2.reset_stream(stream, ErrorCodes.INTERNAL_ERROR)

    def _hints(self, stream: int, answer: Answer, visit: SeenRequest) -> None:
        self._h2.send_headers(stream, [(":status", "103"), ("link", "</x>; rel=preload")])
        self._head(stream, answer)
        self._send(stream, answer.body)
        self._h2.send_headers(stream, [("x-trailer", "late")], end_stream=True)
