"""Columns of a page's row, for all formats that have rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any

from crawlstream.model.delivered import PAGE_FIELDS, TextHeaders
from crawlstream.wire import jsontext


class ColumnType(StrEnum):
    """Type of a column."""

    TEXT = "text"
    WHOLE = "64-bit integer"
    NUMBER = "64-bit floating point"
    FLAG = "boolean"
    TIME = "time, UTC, microseconds"
    BYTES = "bytes"
    TEXTS = "list of texts"
    WHOLES = "list of 64-bit integers"
    HEADERS = "map of text to list of texts"
    LINKS = "list of url and text"
    JSON = "JSON, as text"


@dataclass(frozen=True, slots=True)
class Column:
    """Column: its name, type and meaning, and the function that takes its value from a row."""

    name: str
    kind: ColumnType
    meaning: str
    take: Callable[[Any], object]
    """Function that takes the value from a row, usually a page."""
    version: str = ""
    """Version of its values, if those of different versions cannot be compared."""


def _json(value: object) -> str | None:
    return jsontext.dumps(value).decode() if value else None


_KINDS: Mapping[Any, ColumnType] = {
    str: ColumnType.TEXT,
    int: ColumnType.WHOLE,
    bool: ColumnType.FLAG,
    datetime: ColumnType.TIME,
    bytes: ColumnType.BYTES,
    Sequence[str]: ColumnType.TEXTS,
    TextHeaders: ColumnType.HEADERS,
    Sequence[tuple[str, str]]: ColumnType.LINKS,
    Mapping[str, object]: ColumnType.JSON,
}
_FIRST = (
    *("id", "appid", "crawlid", "spiderid", "run", "url", "response_url", "status_code"),
    *("timestamp", "mime", "encoding", "body", "body_size", "body_truncated", "body_ref", "digest"),
    *("request_headers", "response_headers", "links", "links_truncated", "depth", "seed_url"),
    *("parent_url", "redirect_urls", "attempt", "latency_ms", "ip", "uuid", "recovered", "attrs"),
    *("method", "extra"),
)
"""Order of the columns that every file has; files of later versions have others behind them."""


def _column(name: str) -> Column:
    take: Callable[[Any], Any] = attrgetter(name)
    if name == "mime":
        return Column(
            name, ColumnType.TEXT, "media type, from Content-Type", lambda page: page.mime or None
        )
    field = PAGE_FIELDS[name]
    kind = _KINDS[field.type]
    return Column(
        name,
        kind,
        field.meaning,
        (lambda page: _json(take(page))) if kind is ColumnType.JSON else take,
    )


_WITH_MEANING = (name for name, field in PAGE_FIELDS.items() if field.meaning)
COLUMNS = tuple(map(_column, dict.fromkeys((*_FIRST, *_WITH_MEANING))))
"""Columns in the order of all files: new fields of a page come after those of earlier versions."""
