"""Heads of HTTP messages in WARC files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from warcio.statusandheaders import StatusAndHeaders

from crawlstream.model.delivered import Delivered, TextHeaders
from crawlstream.model.result import AsSent
from pipeline_service.formats.any_url import split_any

_LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")
_VERSION = re.compile(rb"\AHTTP/(\d)(?:\.\d)?(?=\s)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\A(?=transfer-encoding[ \t]*:)", re.IGNORECASE)
_RENAMED = b"X-Crawler-"
_OF_THE_CODED_BODY = frozenset({"content-encoding", "transfer-encoding", "content-length"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\s]+")
_METHOD = re.compile(r"[^A-Za-z-]+")
_ASCII = "".join(map(chr, range(0x20, 0x7F)))


def head_as_sent(sent: AsSent) -> tuple[StatusAndHeaders, str | None]:
    """Return the head of a response as its site sent it, and the name of a protocol to mention.

    A header that announces chunks is renamed, since these are joined in the body. The status line
    of HTTP/2 and HTTP/3 names HTTP/1.1, which is the form of the head.
    """
    first, *lines = [line for line in _LINE.findall(sent.head) if line.strip()] or [b"HTTP/1.1 0"]
    version = _VERSION.match(first)
    protocol = None
    if version and version[1] in b"23":
        protocol = f"h{version[1].decode()}"
        first = b"HTTP/1.1" + first[version.end() :]
    head = [first, *(_CHUNKED.sub(_RENAMED, line) for line in lines)]
    if not head[-1].endswith(b"\n"):
        head.append(b"\r\n")
    http: Any = StatusAndHeaders("as sent", [])
    http.headers_buff = b"".join([*head, b"\r\n"])
    http.compute_headers_buffer = lambda _: None  # It would encode them again.
    return http, protocol


def head_decoded(page: Delivered) -> StatusAndHeaders:
    """Return the head of a response with its body after content decoding.

    Headers about the coding and the length of the body are not true of it, and are renamed.
    """
    renamed = _RENAMED.decode()
    headers = [
        (f"{renamed}{name}" if name.lower() in _OF_THE_CODED_BODY else name, value)
        for name, value in _pairs(page.response_headers)
    ]
    return StatusAndHeaders(_status_line(page.status_code), headers, "HTTP/1.1")


def head_of_request(page: Delivered) -> StatusAndHeaders:
    """Return the head of a request."""
    parts = split_any(clean_url(page.response_url))
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    asked = [("Host", parts.netloc.rpartition("@")[2])]
    asked += [pair for pair in _pairs(page.request_headers) if pair[0].lower() != "host"]
    line = f"{_METHOD.sub('', page.method)} {_ascii(target)} HTTP/1.1"
    return StatusAndHeaders(line, asked, is_http_request=True)


def clean_line(text: str) -> str:
    """Return text without characters that could end a header."""
    return _CONTROL.sub(" ", text).strip()


def clean_url(url: str) -> str:
    """Return a URL without characters that could end a header."""
    return _CONTROL.sub("%20", url.strip())


def _pairs(headers: TextHeaders) -> Iterator[tuple[str, str]]:
    for name, values in headers.items():
        for value in values:
            yield _ascii(clean_line(name).replace(":", " ")) or "X", clean_line(value)


def _status_line(code: int) -> str:
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return f"{code} Unknown"


def _ascii(text: str) -> str:
    """Percent-encode all but ASCII, which the writer does for values only."""
    return quote(text, safe=_ASCII)
