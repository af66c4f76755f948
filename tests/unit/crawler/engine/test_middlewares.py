"""Middlewares: the report on a response that cannot be decompressed."""

from __future__ import annotations

import gzip
import weakref
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse, Response

from crawling.engine.middlewares import WatchedCompression
from crawling.failures import BadEncoding, TooLarge
from crawling.lease.cpu_fairness import BODY_S_PER_BYTE
from crawling.page.body_budget import BodyBudget
from crawling.page.flight_recorder import FlightRecorder
from crawling.page.scrapy_request import PAGE
from crawling.response.codings import INCOMPLETE, Undecoded
from crawling.robots.request import ROBOTS
from support.pages import page_at

URL = "http://a.example/"


@pytest.fixture
def unpacking(tmp_path: Path) -> WatchedCompression:
    """The middleware, for bodies of 1 MiB at most."""
    return WatchedCompression(1 << 20, FlightRecorder(tmp_path, "link"), BodyBudget())


def fetched(
    body: bytes, codings: str, *, status: int = 200, is_robots: bool = False
) -> tuple[Request, Response]:
    """A request of a page or of a robots.txt, and its response."""
    request = Request(URL, meta={PAGE: page_at(URL), **({ROBOTS: True} if is_robots else {})})
    headers: Any = {"Content-Encoding": codings, "Location": "/next"}
    return request, Response(URL, status=status, headers=headers, body=body, request=request)


class Decompressed(bytearray):
    """The state of a bomb up to now."""


@pytest.mark.parametrize(("kind", "told"), [(TooLarge, TooLarge), (OSError, BadEncoding)])
async def test_what_a_bomb_has_become_is_freed_before_its_failure_is_told(
    kind: type[Exception],
    told: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    unpacking: WatchedCompression,
) -> None:
    """The failures of many bombs wait for Kafka at once: they must not carry megabytes."""
    seen: list[weakref.ref[Decompressed]] = []

    def refuse(*_: object) -> Response:
        body = Decompressed(b"no status")
        seen.append(weakref.ref(body))
        try:
            return Response(URL, status=int(body))
        except ValueError as error:
            raise kind from error

    monkeypatch.setattr("crawling.engine.middlewares.without_codings", refuse)
    request, response = fetched(b"", "gzip")
    with pytest.raises(told) as raised:
        await unpacking.process_response(request, response)
    assert raised.value.__traceback__ is not None
    assert seen[0]() is None


def wrapped(body: bytes, layers: int) -> bytes:
    """A body in that number of layers of gzip."""
    for _ in range(layers):
        body = gzip.compress(body, 1)
    return body


@pytest.mark.parametrize(
    ("codings", "layers", "is_read"),
    [
        ("gzip", 1, True),
        ("identity, gzip", 1, True),
        ("gzip, identity", 1, True),
        ("gzip, gzip", 2, True),
        ("gzip, gzip, gzip", 3, False),
        (", ".join(["gzip"] * 800), 1, False),
    ],
)
async def test_no_more_than_two_codings_are_undone(
    codings: str,
    layers: int,
    is_read: bool,  # noqa: FBT001
    unpacking: WatchedCompression,
) -> None:
    """Each is undone to full size: a small response with many of them is expensive."""
    request, response = fetched(wrapped(b"text", layers), codings)
    if is_read:
        plain: Any = await unpacking.process_response(request, response)
        assert plain.body == b"text"
    else:
        with pytest.raises(BadEncoding):
            await unpacking.process_response(request, response)


UNREADABLE = {"no gzip": b"plain", "a bomb": gzip.compress(bytes(2 << 20)), "cut": b"\x1f\x8b\x08"}


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize(
    ("status", "is_robots", "is_enough"),
    [
        *((status, False, True) for status in (301, 302, 303, 307, 308, 429, 503)),
        *((status, False, False) for status in (200, 206, 404, 410)),
        *((status, True, True) for status in (301, 401, 404, 410, 429, 500, 503)),
        *((status, True, False) for status in (200, 203)),
    ],
)
async def test_a_status_that_says_enough_needs_no_body(
    kind: str,
    status: int,
    is_robots: bool,  # noqa: FBT001
    is_enough: bool,  # noqa: FBT001
    unpacking: WatchedCompression,
) -> None:
    """Redirects, refusals that pass, and a robots.txt that is not there."""
    request, response = fetched(UNREADABLE[kind], "gzip", status=status, is_robots=is_robots)
    if is_enough:
        found: Any = await unpacking.process_response(request, response)
        assert (found.status, found.headers[b"Location"]) == (status, b"/next")
        assert isinstance(found, Undecoded)
        assert isinstance(found.problem, BadEncoding | TooLarge)
        assert found.problem.__traceback__ is None
        is_charged = request.meta[PAGE].cpu_s >= (1 << 20) * BODY_S_PER_BYTE
        assert is_charged or kind != "a bomb"
    else:
        with pytest.raises((BadEncoding, TooLarge)):
            await unpacking.process_response(request, response)


async def test_a_body_that_breaks_off_is_marked(unpacking: WatchedCompression) -> None:
    """Bytes before it are the page, read by the type of a header that was merged."""
    packed = gzip.compress(b"<a href=/x>" + bytes(range(256)) * 40)
    for body, flags in ((packed, []), (packed[:-20], [INCOMPLETE])):
        request, response = fetched(body, "gzip")
        response.headers[b"Content-Type"] = "text/html, text/html; charset=utf-8"
        found: Any = await unpacking.process_response(request, response)
        assert isinstance(found, HtmlResponse)
        assert found.body.startswith(b"<a href=/x>")
        assert found.flags == flags
