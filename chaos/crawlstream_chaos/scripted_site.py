"""A small web for the crawler's tests: the answer of each path is written next to the test.

Arrival times of requests come from the kernel, not from this process: however busy the machine is,
the site's log is exact to some microseconds.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

HTML = {"Content-Type": "text/html; charset=utf-8"}

_SO_TIMESTAMPNS = 35
"""Linux: the kernel notes when data came in, as seconds and nanoseconds."""
_RESET = struct.pack("ii", 1, 0)
"""Value for SO_LINGER: close at once, with a reset."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a visitor."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: HTML)
    more_headers: Sequence[tuple[str, str]] = ()
    """Headers that come more than once."""
    after_s: float = 0
    raw: bytes | None = None
    """Sent instead of everything else; then the connection is closed."""
    stream: Iterable[bytes] = ()
    """The body in pieces, for as long as the visitor takes it; may be infinite."""
    is_reset: bool = False
    """The connection is broken off instead."""


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request as the site saw it."""

    host: str
    path: str
    at: float
    """Epoch seconds at which the kernel had its last byte."""
    headers: Mapping[str, str]
    method: str = "GET"


Page = Answer | Callable[[SeenRequest], Answer]


def page(*links: str, text: str = "") -> Answer:
    """An HTML page with links."""
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
    return Answer(f"<html><body>{text}{anchors}</body></html>".encode())


class CrawlerSite:
    """Answers on every address of 127.0.0.0/8, and remembers who came."""

    def __init__(self, pages: Mapping[str, Page], port: int = 0) -> None:
        self.pages = dict(pages)
        self.visits: list[SeenRequest] = []
        self._listener = socket.create_server(("", port), backlog=512)
        self._listener.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.port: int = self._listener.getsockname()[1]

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """Return where a path is found; a path of a host comes before the same path of any host."""
        return f"http://{host}:{self.port}{path}"

    def paths(self) -> list[str]:
        """Return the requested paths, robots.txt left out."""
        return [visit.path for visit in self.visits if visit.path != "/robots.txt"]

    def close(self) -> None:
        """Take no more visitors."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def serve(self) -> None:
        """Take visitors, each in a thread of its own, until closed."""
        with suppress(OSError):
            while True:
                visitor, _ = self._listener.accept()
                threading.Thread(target=self._talk, args=(visitor,), daemon=True).start()

    def page_at(self, host: str, path: str) -> Page:
        """Return the page at a path of a host."""
        return self.pages.get(host + path, self.pages.get(path, Answer(status=404)))

    def answer_to(self, visit: SeenRequest) -> Answer:
        """Note a visit; what it gets, once its time has come."""
        self.visits.append(visit)
        found = self.page_at(visit.host, visit.path)
        answer = found(visit) if callable(found) else found
        if answer.after_s:
            time.sleep(answer.after_s)
        return answer

    def _talk(self, visitor: socket.socket) -> None:
        with visitor, suppress(OSError):
            while (received := _receive(visitor)) and self._answer(visitor, *received):
                pass

    def _answer(self, visitor: socket.socket, request: bytes, at: float) -> bool:
        head, _, _body = request.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        method, path, _ = first.split(" ")
        host = headers["host"].partition(":")[0]
        answer = self.answer_to(SeenRequest(host, path, at, headers, method))
        if answer.is_reset:
            visitor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            return False
        if answer.stream:
            for piece in answer.stream:
                visitor.sendall(piece)
            return False
        visitor.sendall(_bytes(answer) if answer.raw is None else answer.raw)
        return answer.raw is None


def _receive(visitor: socket.socket) -> tuple[bytes, float] | None:
    """Return a whole request and when its last byte came; None at the end of the connection."""
    request, at = b"", 0.0
    while not is_whole(request):
        data, notes, _flags, _peer = visitor.recvmsg(65536, 256)
        if not data:
            return None
        request += data
        at = stamp_of(notes) or at
    return request, at


def stamp_of(notes: Sequence[tuple[int, int, bytes]]) -> float | None:
    """Return when data came in, in epoch seconds, by the kernel's notes; None without one."""
    for _level, kind, stamp in notes:
        if kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = struct.unpack("qq", stamp)
            return float(seconds + nanoseconds / 1e9)
    return None


def is_whole(request: bytes) -> bool:
    """Return whether a request has arrived with its body."""
    head, end, body = request.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        return body.endswith(b"0\r\n\r\n")
    _, _, length = head.lower().partition(b"content-length:")
    return bool(end) and len(body) >= int(length.split(b"\r\n")[0] or 0)


def _bytes(answer: Answer) -> bytes:
    headers = {"Content-Length": str(len(answer.body)), **answer.headers}.items()
    lines = [f"HTTP/1.1 {answer.status} X"]
    lines += [f"{name}: {value}" for name, value in (*headers, *answer.more_headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + answer.body


@contextmanager
def serving(
    pages: Mapping[str, Page], kind: type[CrawlerSite] = CrawlerSite
) -> Iterator[CrawlerSite]:
    """Serve some pages for the length of the block."""
    site = kind(pages)
    thread = threading.Thread(target=site.serve, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.close()
        thread.join(5)
