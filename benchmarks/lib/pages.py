"""Records of the result topic, 20 KB each, in which a codec finds what it finds in HTML."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace

from crawlstream.bus.records import Record
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.result import CrawlResult
from crawlstream.wire.results import encode_result

PAGES = 2_000
BODY_BYTES = 19_000
_WORDS = [
    hashlib.md5(b"%d" % n, usedforsecurity=False).hexdigest()[: n % 9 + 2] for n in range(999)
]

PAGE = CrawlResult(
    id="0" * 32,
    crawl=CrawlKey("link", "app", "job"),
    run=1,
    attrs=None,
    url="http://127.0.0.7:8080/a",
    response_url="http://127.0.0.7:8080/a",
    status_code=200,
    request_headers={b"User-Agent": [b"bot"], b"Accept": [b"text/html"]},
    response_headers={b"Content-Type": [b"text/html; charset=utf-8"], b"Server": [b"nginx"]},
    body=b"",
    encoding="utf-8",
    links=[(f"http://127.0.0.7:8080/page/{n}", f"page {n}") for n in range(20)],
    timestamp=1795251154.786542,
    depth=1,
    seed_url="http://127.0.0.7:8080/",
    attempt=1,
    latency_ms=12,
    ip="127.0.0.7",
)


def records() -> list[Record]:
    """Pages of words, no two alike, the same each time."""
    chosen = random.Random(7)
    made = []
    for number in range(PAGES):
        words = " ".join(chosen.choices(_WORDS, k=BODY_BYTES // 6))[:BODY_BYTES]
        page = replace(PAGE, id=f"{number:032x}", body=f"<html><p>{words}</p></html>".encode())
        made.append(Record("t", 0, number, 1795251154000, None, encode_result(page)))
    return made
