"""Build Scrapy's response from the received bytes, as Scrapy's own handler does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address

from scrapy import Request
from scrapy.http import Headers, Response

from crawling.failures import TransferFailed
from crawling.response.codings import Undecoded, is_status_enough, undecoded
from crawling.response.media_type import class_of
from crawling.robots.request import ROBOTS

_OF_THE_CONNECTION = frozenset(
    {
        b"Connection", b"Content-Length", b"Keep-Alive", b"Proxy-Connection", b"Te", b"Trailers",
        b"Transfer-Encoding", b"Upgrade",
    }
)  # fmt: skip
"""Headers that say how the message is sent, and nothing of what is in it."""
_BODILESS = frozenset({204, 304})
_BODILESS_WORDS = ([b"204"], [b"304"])
_LONGEST_NUMBER = 18
"""Digits of a length; the first of more are enough to be too many."""
_ADDRESSES_REMEMBERED = 4096


def response_of(
    request: Request, head: Sequence[bytes], body: bytes, address: str, *, flags: list[str]
) -> Response:
    """Return the response; raise TransferFailed if its head is invalid.

    ``address``: the server's; "": unknown.
    """
    version, status = _status(head[0])
    headers = _headers(request, status, head)
    url = request.url.partition("#")[0]
    response = class_of(headers, url, body)(
        url=url,
        status=status,
        body=body,
        flags=flags,
        ip_address=_address(address) if address else None,
        protocol=version,
    )
    response.headers = headers  # Its own way in would normalize them once more.
    return response


def for_its_status(request: Request, head: Sequence[bytes], problem: Exception) -> Undecoded | None:
    """Return a response whose body was not taken, if its status says enough without."""
    status = _status(head[0])[1]
    if not is_status_enough(status, is_robots=ROBOTS in request.meta):
        return None
    return undecoded(response_of(request, head, b"", "", flags=[]), problem)


def body_length(head: Sequence[bytes]) -> int:
    """Return the bytes of the body that a head announces; 0: no body or unknown length."""
    lines = (line for line in head if line[:15].lower() == b"content-length:")
    if (line := next(lines, None)) is None or head[0].split()[1:2] in _BODILESS_WORDS:
        return 0
    digits = line[15:].strip()[:_LONGEST_NUMBER]
    is_chunked = any(line[:18].lower() == b"transfer-encoding:" for line in head)
    return int(digits) if digits.isdigit() and not is_chunked else 0


def download_latency(page_left_at: float, head_at: float) -> float:
    """Seconds from the request's leaving to the end of the head of its response."""
    return max((head_at or time.monotonic()) - page_left_at, 0.0)


@lru_cache(256)
def _status(line: bytes) -> tuple[str, int]:
    parts = line.split(None, 2)
    if len(parts) < 2 or not parts[1].isdigit():
        raise TransferFailed("bad_response", f"no status line: {line[:100]!r}")
    return parts[0].decode("latin-1"), int(parts[1])


def _headers(request: Request, status: int, head: Sequence[bytes]) -> Headers:
    length, is_chunked = b"", False
    kept: dict[bytes, list[bytes]] = {}
    for line in head[1:]:
        name, _, value = line.partition(b":")
        name, value = name.title(), value.strip()
        if name not in _OF_THE_CONNECTION:
            kept.setdefault(name, []).append(value)
        elif name == b"Content-Length":
            length = value
        elif name == b"Transfer-Encoding":
            is_chunked = True
    if status in _BODILESS or (request.method == "HEAD" and not length):
        length = b"0"
    headers = Headers()
    # Past Scrapy's way in, which would make the same of them once more.
    if length and not is_chunked:
        dict.__setitem__(headers, b"Content-Length", [length])
    dict.update(headers, kept)
    return headers


_address = lru_cache(_ADDRESSES_REMEMBERED)(ip_address)
