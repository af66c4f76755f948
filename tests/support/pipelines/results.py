"""Result records as crawlers make them, for tests of readers."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.result import CrawlResult
from crawlstream.wire.results import encode_result

PAGE = CrawlResult(
    id="0" * 32,
    crawl=CrawlKey("link", "app", "job"),
    run=1,
    attrs={"k": [1, None]},
    url="http://127.0.0.7:8080/a?b=c",
    response_url="http://127.0.0.7:8080/a?b=c",
    status_code=200,
    request_headers={b"User-Agent": [b"bot"], b"Cookie": [b"secret=1"]},
    response_headers={
        b"Content-Type": [b"text/html; charset=utf-8"],
        b"Content-Encoding": [b"gzip"],
        b"Set-Cookie": [b"session=secret2"],
        b"X-Two": [b"1", b"2"],
    },
    body='<p>é / "q"</p>'.encode(),
    encoding="utf-8",
    links=[("http://127.0.0.7:8080/b", "Bee")],
    timestamp=1795251154.786542,
    depth=1,
    seed_url="http://127.0.0.7:8080/",
    attempt=1,
    latency_ms=12,
    ip="127.0.0.7",
)


def page_id(number: int) -> str:
    """The id of a page by its number."""
    return hashlib.md5(b"%d" % number, usedforsecurity=False).hexdigest()


def record(number: int, **changes: Any) -> bytes:
    """The record of a page of its own id."""
    return encode_result(replace(PAGE, **{"id": page_id(number), **changes}))
