"""Middlewares: what is told of a response that cannot be decompressed."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from crawling.failures import BadEncoding, TooLarge
from crawling.middlewares import WatchedCompression
from crawling.recorder import Recorder
from crawling.to_scrapy import PAGE
from crawling.weights import Weights
from support.pages import page_at

URL = "http://a.example/"


class Decompressed(bytearray):
    """What a bomb has become so far."""


class Refusing:
    """Scrapy's middleware, when it has had enough."""

    process_request: Any = None

    def __init__(self, kind: type[Exception]) -> None:
        self._kind = kind
        self.decompressed: weakref.ref[Decompressed] | None = None

    def process_response(self, _request: Request, _response: Response) -> Response:
        """Raise while there is something in hand."""
        body = Decompressed(b"no status")
        self.decompressed = weakref.ref(body)
        try:
            return Response(URL, status=int(body))
        except ValueError as error:
            raise self._kind from error


@pytest.mark.parametrize(("kind", "told"), [(IgnoreRequest, TooLarge), (OSError, BadEncoding)])
async def test_what_a_bomb_has_become_is_freed_before_its_failure_is_told(
    kind: type[Exception], told: type[Exception], tmp_path: Path
) -> None:
    """The failures of many bombs wait for Kafka at once: they must not carry megabytes."""
    inner: Any = Refusing(kind)
    request = Request(URL, meta={PAGE: page_at(URL)})
    response = Response(URL, headers={"Content-Encoding": "gzip"}, request=request)
    middleware = WatchedCompression(inner, Recorder(tmp_path, "link"), Weights())
    with pytest.raises(told) as raised:
        await middleware.process_response(request, response)
    assert raised.value.__traceback__ is not None
    assert inner.decompressed() is None
