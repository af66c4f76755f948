"""Middlewares: what is told of a response that cannot be decompressed."""

from __future__ import annotations

import gzip
import weakref
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from crawling.engine.middlewares import WatchedCompression
from crawling.failures import BadEncoding, TooLarge
from crawling.page.body_budget import BodyBudget
from crawling.page.flight_recorder import Recorder
from crawling.page.request import PAGE
from support.pages import page_at

URL = "http://a.example/"


class Decompressed(bytearray):
    """What a bomb has become so far."""


@pytest.mark.parametrize(("kind", "told"), [(TooLarge, TooLarge), (OSError, BadEncoding)])
async def test_what_a_bomb_has_become_is_freed_before_its_failure_is_told(
    kind: type[Exception],
    told: type[Exception],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
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
    request = Request(URL, meta={PAGE: page_at(URL)})
    response = Response(URL, headers={"Content-Encoding": "gzip"}, request=request)
    middleware = WatchedCompression(1 << 20, Recorder(tmp_path, "link"), BodyBudget())
    with pytest.raises(told) as raised:
        await middleware.process_response(request, response)
    assert raised.value.__traceback__ is not None
    assert seen[0]() is None


def wrapped(body: bytes, layers: int) -> bytes:
    """A body in so many layers of gzip."""
    for _ in range(layers):
        body = gzip.compress(body, 1)
    return body


@pytest.mark.parametrize(
    ("codings", "layers", "is_read"),
    [
        ("gzip", 1, True),
        ("identity, gzip", 1, True),
        ("gzip, gzip", 2, True),
        ("gzip, gzip, gzip", 3, False),
        (", ".join(["gzip"] * 800), 1, False),
    ],
)
async def test_no_more_than_two_codings_are_undone(
    codings: str,
    layers: int,
    is_read: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    """Each is undone to full size: a small response with many of them is dear."""
    middleware = WatchedCompression(1 << 20, Recorder(tmp_path, "link"), BodyBudget())
    request = Request(URL, meta={PAGE: page_at(URL)})
    response = Response(
        URL, headers={"Content-Encoding": codings}, body=wrapped(b"text", layers), request=request
    )
    if is_read:
        plain: Any = await middleware.process_response(request, response)
        assert plain.body == b"text"
    else:
        with pytest.raises(BadEncoding):
            await middleware.process_response(request, response)
