"""Columns of a page's row, for all formats that have rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from crawlstream.wire import jsontext


class Kind(StrEnum):
    """Type of a column."""

    TEXT = "text"
    WHOLE = "64-bit integer"
    NUMBER = "64-bit floating point"
    FLAG = "boolean"
    TIME = "time, UTC, microseconds"
    BYTES = "bytes"
    TEXTS = "list of texts"
    HEADERS = "map of text to list of texts"
    LINKS = "list of url and text"
    JSON = "JSON, as text"


@dataclass(frozen=True, slots=True)
class Column:
    """Column: its name, type and meaning, and the function that takes its value from a row."""

    name: str
    kind: Kind
    meaning: str
    take: Callable[[Any], object]
    """Function that takes the value from a row, usually a page."""


def _json(value: object) -> str | None:
    return jsontext.dumps(value).decode() if value else None


COLUMNS = (
    Column("id", Kind.TEXT, "id of the page", lambda page: page.id),
    Column("appid", Kind.TEXT, "application", lambda page: page.appid),
    Column("crawlid", Kind.TEXT, "crawl", lambda page: page.crawlid),
    Column("spiderid", Kind.TEXT, "spider", lambda page: page.spiderid),
    Column("run", Kind.WHOLE, "run of the crawl", lambda page: page.run),
    Column("url", Kind.TEXT, "requested URL", lambda page: page.url),
    Column("response_url", Kind.TEXT, "URL of the response", lambda page: page.response_url),
    Column("status_code", Kind.WHOLE, "HTTP status", lambda page: page.status_code),
    Column("timestamp", Kind.TIME, "time of the response", lambda page: page.timestamp),
    Column("mime", Kind.TEXT, "media type, from Content-Type", lambda page: page.mime or None),
    Column("encoding", Kind.TEXT, "charset; `binary`: not text", lambda page: page.encoding),
    Column("body", Kind.BYTES, "body as sent, decompressed", lambda page: page.body),
    Column("body_size", Kind.WHOLE, "size of the whole body", lambda page: page.body_size),
    Column("body_truncated", Kind.FLAG, "body is cut", lambda page: page.body_truncated),
    Column("body_ref", Kind.TEXT, "URL of the whole body", lambda page: page.body_ref),
    Column("digest", Kind.TEXT, "`sha256:` of the whole body", lambda page: page.digest),
    Column("request_headers", Kind.HEADERS, "as sent", lambda page: page.request_headers),
    Column("response_headers", Kind.HEADERS, "as received", lambda page: page.response_headers),
    Column("links", Kind.LINKS, "links that passed the filters", lambda page: page.links),
    Column("links_truncated", Kind.FLAG, "links are missing", lambda page: page.links_truncated),
    Column("depth", Kind.WHOLE, "links from the seed", lambda page: page.depth),
    Column("seed_url", Kind.TEXT, "URL of the seed", lambda page: page.seed_url),
    Column("parent_url", Kind.TEXT, "page with the link", lambda page: page.parent_url),
    Column("redirect_urls", Kind.TEXTS, "redirects before", lambda page: page.redirect_urls),
    Column("attempt", Kind.WHOLE, "attempts at the page", lambda page: page.attempt),
    Column("latency_ms", Kind.WHOLE, "duration of the download", lambda page: page.latency_ms),
    Column("ip", Kind.TEXT, "address of the site", lambda page: page.ip),
    Column("uuid", Kind.TEXT, "uuid of the request", lambda page: page.uuid),
    Column("recovered", Kind.FLAG, "crawl began anew", lambda page: page.recovered),
    Column("attrs", Kind.JSON, "attrs of the request", lambda page: _json(page.attrs)),
    Column("method", Kind.TEXT, "HTTP method", lambda page: page.method),
    Column("extra", Kind.JSON, "all other fields", lambda page: _json(page.extra)),
)
"""Columns in the order of all files; new columns are only added at the end."""
