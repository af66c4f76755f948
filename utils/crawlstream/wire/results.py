"""Encode a fetched page as the JSON record that clients read; it succeeds for any page.

Text stays text if it encodes back to the same bytes; any other body is base64 and marked so. So a
reader gets the exact bytes of the page (:mod:`crawlstream.wire.delivered`). A page that is too
large for its record is cut and marked so: first links that take more than a quarter of the record,
then the body before its decoding, or the screenshot, then the body, then the remaining links, then
headers.
"""

from __future__ import annotations

import codecs
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

from crawlstream.model.result import (
    OCCASIONAL,
    AsSent,
    CrawlResult,
    Headers,
    ResultLimits,
    digest_of,
)
from crawlstream.wire import jsontext

_DEFAULT_LIMITS = ResultLimits()
_occasional = attrgetter(*OCCASIONAL)

NOT_CHARSETS = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
)
"""Codecs of Python that a page never means; punycode takes quadratic time."""

_LIKE_ASCII = frozenset({"ascii", "cp1251", "cp1252", "iso8859-1", "iso8859-15", "utf-8"})
"""Codecs that have ASCII in its place. Those of 8 bits take fifty times as long for it."""

_BINARY = "binary"
"""Value of ``encoding`` for a page that is not text: the field is always a string."""

BODIES = frozenset({"as_sent", "body", "screenshot_body"})
"""Fields that hold a body; it may be of megabytes."""

_NAMES_REMEMBERED = 4096
"""Names of headers; there are few."""
_LONGEST_CHARACTER = 8
"""Bytes of the longest character; a cut body may end in the middle of one."""


def encode_result(result: CrawlResult, limits: ResultLimits = _DEFAULT_LIMITS) -> bytes:
    """Return the record of a page: UTF-8 JSON of at most ``max_record_bytes``. Never fails."""
    return encode_page(result, limits)[0]


def encode_page(result: CrawlResult, limits: ResultLimits = _DEFAULT_LIMITS) -> tuple[bytes, bool]:
    """Return the record of a page, and whether a part of the body was left out."""
    record = _place(result) | _exchange(result) | _body(result, limits)
    encoded = jsontext.dumps(record)
    while len(encoded) > limits.max_record_bytes and _cut(
        record, len(encoded) - limits.max_record_bytes, limits.max_record_bytes // 4
    ):
        encoded = jsontext.dumps(record)
    return encoded, "body_truncated" in record


def timestamp(at_s: float) -> str:
    """Return epoch seconds as naive UTC with microseconds, the only form that clients know."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds")[: -len("+00:00")]


def _place(result: CrawlResult) -> dict[str, Any]:
    """Return the crawl of the page, and its place in the crawl."""
    record = {
        "id": result.id,
        "appid": result.crawl.appid,
        "crawlid": result.crawl.crawlid,
        "spiderid": result.crawl.spiderid,
        "run": result.run,
        "attrs": result.attrs,
        "depth": result.depth,
        "seed_url": result.seed_url,
        "attempt": result.attempt,
    }
    occasional = {
        **dict(zip(OCCASIONAL, _occasional(result), strict=True)),
        "occasion": asdict(result.firing) if result.firing else None,
        "proxy": result.proxy,
        "tls_profile": result.tls_profile,
        "render": result.render,
        "guard": result.guard,
        "kind": result.kind,
        "requisites": result.requisites,
    }
    return record | {
        name: value for name, value in occasional.items() if value and value != OCCASIONAL.get(name)
    }


def _exchange(result: CrawlResult) -> dict[str, Any]:
    """Return request and response, without the body."""
    return {
        "url": result.url,
        "response_url": result.response_url,
        "status_code": result.status_code,
        "status_msg": "OK",
        "request_headers": _headers(result.request_headers),
        "response_headers": _headers(result.response_headers),
        "links": _links(result),
        "timestamp": timestamp(result.timestamp),
        "latency_ms": result.latency_ms,
        "ip": result.ip,
    }


def _links(result: CrawlResult) -> list[dict[str, str]]:
    links = [{"url": url, "text": text} for url, text in result.links]
    for link, lastmod in zip(links, result.lastmods, strict=False):
        if lastmod:
            link["lastmod"] = lastmod
    return links


def _body(result: CrawlResult, limits: ResultLimits) -> dict[str, Any]:
    """Return the fields of the body."""
    kept = result.body[: limits.max_body_bytes]
    is_cut = len(kept) < len(result.body)
    text = None
    if result.encoding and not limits.base64_always:
        text = _text(kept, result.encoding, is_cut=is_cut)
    fields: dict[str, Any] = {
        "body": b64encode(kept).decode("ascii") if text is None else text,
        "encoding": result.encoding or _BINARY,
        "body_size": len(result.body) if result.body_size is None else result.body_size,
        "digest": result.digest or digest_of(result.body),
    }
    if text is None:
        fields["body_encoding"] = "base64"
    if is_cut:
        fields["body_truncated"] = True
    if result.incomplete:
        fields["incomplete"] = True
    if result.body_ref:
        fields["body_ref"] = result.body_ref
    if result.as_sent:
        fields["as_sent"] = _as_sent(result.as_sent, limits.max_body_bytes)
    if result.screenshot_body:
        fields["screenshot_body"] = b64encode(result.screenshot_body).decode("ascii")
    return fields


def _as_sent(sent: AsSent, most: int) -> dict[str, Any]:
    """Return a response as its site sent it; a body over ``most`` bytes is left out."""
    fields: dict[str, Any] = {"head": sent.head.decode("latin-1")}
    if sent.body is not None and len(sent.body) <= most:
        fields["body"] = b64encode(sent.body).decode("ascii")
    elif sent.body is not None:
        fields["body_left_out"] = True
    return fields


def _text(body: bytes, encoding: str, *, is_cut: bool) -> str | None:
    """Return the body as text that encodes to the same bytes; None if that is impossible.

    A character that was cut in two is left out. Some codecs decode bytes that they would not
    encode: an unexpected byte order mark, two encodings of a character, escapes without effect.
    UTF-8 is not one of them.
    """
    try:
        codec = codecs.lookup(encoding).name
        if codec in NOT_CHARSETS:
            return None
        if codec in _LIKE_ASCII and body.isascii():
            return body.decode("ascii")
        text = body.decode(encoding)
        return text if codec == "utf-8" or text.encode(encoding) == body else None
    except UnicodeDecodeError as error:
        if not is_cut or error.start < len(body) - _LONGEST_CHARACTER:
            return None
        return _text(body[: error.start], encoding, is_cut=False)
    except (LookupError, ValueError):
        return None


def _headers(headers: Headers) -> Mapping[str, Sequence[str]]:
    return {_name(name): list(map(_readable, values)) for name, values in headers.items()}


def _readable(raw: bytes) -> str:
    """Decode as UTF-8, or as Latin-1, which accepts any bytes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


_name = lru_cache(_NAMES_REMEMBERED)(_readable)


def _cut(record: dict[str, Any], excess: int, share: int) -> bool:
    """Make a record smaller by about ``excess`` bytes; False if there is nothing left to cut.

    Links may take ``share`` bytes of it before the body is cut.
    """
    if record["links"] and len(jsontext.dumps(record["links"])) > share:
        _halve_links(record)
    elif "body" in record.get("as_sent", ()):
        del record["as_sent"]["body"]
        record["as_sent"]["body_left_out"] = True
    elif record.pop("screenshot_body", None):
        record["screenshot"] = {**record["screenshot"], "error": "no_room"}
    elif record["body"]:
        record["body"] = _shorter(
            record["body"], excess, step=4 if "body_encoding" in record else 1
        )
        record["body_truncated"] = True
    elif record["links"]:
        _halve_links(record)
    elif record["response_headers"] or "as_sent" in record:
        record["response_headers"] = {}
        record.pop("as_sent", None)
        record["headers_truncated"] = True
    else:
        return False
    return True


def _halve_links(record: dict[str, Any]) -> None:
    record["links"] = record["links"][: len(record["links"]) // 2]
    record["links_truncated"] = True


def _shorter(text: str, excess: int, *, step: int) -> str:
    """Return text that is about ``excess`` bytes shorter as JSON, in whole steps.

    Cut at least an eighth, to bound the number of rounds if the characters that take many bytes are
    at the beginning.
    """
    size = len(jsontext.dumps(text))
    keep = min(len(text) * max(size - excess, 0) // size, len(text) * 7 // 8)
    return text[: keep - keep % step]
