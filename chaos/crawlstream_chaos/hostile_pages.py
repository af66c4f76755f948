"""Answers of hostile servers, with the expected outcome of each: a corpus for crawler processes."""

from __future__ import annotations

import gzip
import itertools
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import brotli  # type: ignore[import-untyped]
import zstandard

from crawlstream_chaos.scripted_site import HTML, Answer, Page, SeenRequest

MIB = 1 << 20
_START = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
_NOTHING = bytes(64 * MIB)


@dataclass(frozen=True, slots=True)
class Case:
    """A behaviour, and the required end of its page: a status, or the reason of its failure."""

    page: Page
    ends: int | str
    by_engine: int | str | None = None
    """How it ends where Scrapy's engine fetches it, if that takes what libcurl refuses."""

    def ends_by(self, way: str) -> int | str:
        """Return the end with the ``lane`` or the ``engine``."""
        return self.ends if way == "lane" or self.by_engine is None else self.by_engine


def packed(body: bytes, encoding: str) -> Answer:
    """A body that is already encoded."""
    return Answer(body, headers={**HTML, "Content-Encoding": encoding})


def _raw(head: bytes, body: bytes = b"") -> Answer:
    return Answer(raw=_START + head + b"\r\n" + body)


def _streamed(head: bytes, pieces: Callable[[], Iterator[bytes]]) -> Page:
    return lambda _visit: Answer(stream=itertools.chain([_START + head], pieces()))


def _slowly(piece: bytes, every_s: float = 0.2) -> Iterator[bytes]:
    while True:
        yield piece
        time.sleep(every_s)


def _endless(piece: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: itertools.repeat(piece)


def bombs() -> Mapping[str, Case]:
    """Bodies that are small on the wire only; all of them are past DOWNLOAD_MAXSIZE."""
    zipped = gzip.compress(_NOTHING)
    bodies = {
        "gzip": zipped,
        "deflate": zlib.compress(_NOTHING),
        "br": brotli.compress(_NOTHING, quality=1),
        "zstd": zstandard.compress(_NOTHING),
    }
    found = {
        f"/bomb/{name}": Case(packed(body, name), "too_large") for name, body in bodies.items()
    }
    twice = packed(gzip.compress(zipped), "gzip, gzip")
    return {**found, "/bomb/twice": Case(twice, "too_large")}


def endless() -> Mapping[str, Case]:
    """Answers that come quickly and never end."""
    block = b"<p>more" + b" " * 65529
    chunk = b"%x\r\n%b\r\n" % (len(block), block)
    return {
        "/endless/body": Case(_streamed(b"\r\n", _endless(block)), "too_large"),
        "/endless/chunks": Case(
            _streamed(b"Transfer-Encoding: chunked\r\n\r\n", _endless(chunk)), "too_large"
        ),
        "/endless/headers": Case(
            _streamed(b"", _endless(b"X-More: " + b"y" * 4096 + b"\r\n")), "connection_lost"
        ),
        "/endless/header": Case(_streamed(b"X-More: ", _endless(b"y" * 65536)), "connection_lost"),
        "/endless/100": Case(
            lambda _visit: Answer(stream=itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 99)),
            "connection_lost",
        ),
        "/endless/extension": Case(
            _streamed(b"Transfer-Encoding: chunked\r\n\r\n1;", _endless(b"x" * 65536)),
            "connection_lost",
        ),
        "/endless/promised": Case(_raw(b"Content-Length: 99999999999\r\n"), "too_large"),
    }


def drips() -> Mapping[str, Case]:
    """Answers that come byte by byte."""
    return {
        "/drip/body": Case(
            _streamed(b"Content-Length: 999\r\n\r\n", lambda: _slowly(b"x")), "timeout"
        ),
        "/drip/head": Case(_streamed(b"X: ", lambda: _slowly(b"x")), "timeout"),
        "/drip/chunks": Case(
            _streamed(b"Transfer-Encoding: chunked\r\n\r\n", lambda: _slowly(b"1\r\nx\r\n")),
            "timeout",
        ),
        "/drip/to-the-end": Case(
            _streamed(b"\r\n", lambda: itertools.islice(_slowly(b"x"), 40)), 200
        ),
    }


def refusals() -> Mapping[str, Case]:
    """Servers that take a request, and give nothing for it."""
    return {
        "/refusal/silence": Case(Answer(after_s=90), "timeout"),
        "/refusal/end": Case(Answer(raw=b""), "connection_lost"),
        "/refusal/reset": Case(Answer(is_reset=True), "connection_lost"),
        "/refusal/circle": Case(_back_to_itself, "redirect_loop"),
    }


def _back_to_itself(visit: SeenRequest) -> Answer:
    return Answer(status=302, headers={"Location": visit.path})


def _by_end(folder: str, ends: Mapping[int | str, Mapping[str, Page]]) -> Mapping[str, Case]:
    return {
        f"/{folder}/{name}": Case(page, end)
        for end, pages in ends.items()
        for name, page in pages.items()
    }


def oddities() -> Mapping[str, Case]:
    """Heads that are taken by some clients only."""
    empty = b"Connection: close\r\nContent-Length: 0\r\n\r\n"
    pages = {
        "/head/version": Answer(raw=b"HTTP/9.9 200 OK\r\n" + empty),
        "/head/colonless": _raw(b"no colon here\r\nContent-Length: 7\r\n", b"<p>here"),
    }
    return {path: Case(page, "bad_response", 200) for path, page in pages.items()}


def heads() -> Mapping[str, Case]:
    """Heads of answers that mean to confuse."""
    body = b"<p>here"
    length, chunked = b"Content-Length: 7\r\n", b"Transfer-Encoding: chunked\r\n"
    empty = b"Connection: close\r\nContent-Length: 0\r\n\r\n"
    many = b"".join(b"X-%d: y\r\n" % number for number in range(400))
    cookies = b"".join(b"Set-Cookie: n%d=v; Domain=com\r\n" % number for number in range(200))
    return _by_end(
        "head",
        {
            "bad_response": {
                "lengths": _raw(length + b"Content-Length: 8\r\n", body),
                "length": _raw(b"Content-Length: -7\r\n", body),
                "nul": _raw(b"X-\x00: \x00\r\n" + length, body),
                "status": Answer(raw=b"HTTP/1.1 99999 No\r\n" + empty),
            },
            "connection_lost": {
                "chunk": _raw(chunked, b"zz\r\n" + body),
                "negative": _raw(chunked, b"-5\r\n" + body),
                "upgrade": Answer(raw=b"HTTP/1.1 101 Other\r\nUpgrade: h2c\r\n\r\n"),
            },
            200: {
                "smuggle": _raw(length + chunked, b"7\r\n" + body + b"\r\n0\r\n\r\n"),
                "many": _raw(many + length, body),
                "cookies": _raw(cookies + length, body),
                "policy": _raw(b"Referrer-Policy: sys.exit\r\n" + length, body),
                "type": Answer(body, headers={"Content-Type": "text/html; charset=" + "x" * 5000}),
            },
            302: {
                "location": Answer(status=302, headers={"Location": "http://[::1"}),
                "inward": Answer(status=302, headers={"Location": "gopher://127.0.0.1:6379/_"}),
            },
        },
    )


def bodies() -> Mapping[str, Case]:
    """Bodies that mean to confuse."""
    entities = b'<!DOCTYPE l [<!ENTITY a "aaaaaaaaaa">' + b"".join(
        b'<!ENTITY %c "%b">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9)
    )
    xml = {"Content-Type": "application/xml"}
    return _by_end(
        "body",
        {
            "bad_encoding": {"encodings": packed(b"plain", ", ".join(["gzip"] * 50))},
            200: {
                "encoding": packed(b"plain", "nonsense"),
                "nested": Answer(b"<div>" * 100_000 + b"<a href=/ok>"),
                "attributes": Answer(b"<a " + b"b=c " * 200_000 + b"href=/ok>"),
                "comments": Answer(b"<!--" * 200_000),
                "nuls": Answer(b"\x00<\x00a\x00 href=/ok>" * 5000),
                "entities": Answer(entities + b"]><l>&j;</l>", headers=xml),
                "base": Answer(b"<base href='javascript:'><a href=x>" * 20),
                "links": Answer(b"<a href='http://[x'>" * 20_000),
                "refresh": Answer(b"<meta http-equiv=refresh content='0; url=http://['>"),
            },
        },
    )


def huge(largest: int) -> Mapping[str, Case]:
    """Pages that are as large as they may be, and full of what a parser makes much of."""
    links = b"".join(b"<a href=/huge/%06d>" % number for number in range(largest // 24))
    bodies = {
        "text": b"word " * (largest // 5),
        "elements": b"<br>" * (largest // 4),
        "links": links,
    }
    return {f"/huge/{name}": Case(Answer(body), 200) for name, body in bodies.items()}


def corpus(largest: int) -> dict[str, Case]:
    """Return all cases, by path, for crawlers that accept up to ``largest`` bytes of a page."""
    return {
        **bombs(), **endless(), **drips(), **refusals(), **oddities(), **heads(), **bodies(),
        **huge(largest),
    }  # fmt: skip
