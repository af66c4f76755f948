"""Digests of results: the part of a result that shows whether its page has changed."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import orjson

from crawlstream.model.crawl import CrawlKey
from crawlstream.wire import jsontext

_DIGEST_BYTES = 16


class PageDigest(NamedTuple):
    """Digest of a page in one run."""

    url: str
    status: int | None
    body: bytes
    """Hash of its body and whole size; of a cut body, only the part in the record counts."""


def digest_of(raw: bytes, crawl: CrawlKey, run: int) -> PageDigest | None:
    """Return the digest of a result; None: of another crawl or run, or not a result."""
    if orjson.dumps(crawl.crawlid)[1:-1] not in raw:
        return None
    try:
        value = jsontext.loads(raw)
    except ValueError:
        return None
    if not isinstance(value, dict) or not isinstance(url := value.get("url"), str):
        return None
    named = (value.get("spiderid", "link"), value.get("appid"), value.get("crawlid"))
    if named != (crawl.spiderid, crawl.appid, crawl.crawlid) or value.get("run") != run:
        return None
    status = value.get("status_code")
    body = orjson.dumps([value.get("body"), value.get("body_size"), value.get("body_encoding")])
    digest = blake2b(body, digest_size=_DIGEST_BYTES).digest()
    return PageDigest(url, status if isinstance(status, int) else None, digest)
