"""The records of results as Kafka Connect sees them: its JsonConverter takes this schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crawlstream.formats.columns import COLUMNS, Kind

_REQUIRED = frozenset(
    {"id", "appid", "crawlid", "spiderid", "run", "url", "response_url", "status_code", "timestamp"}
)
_COMPUTED = frozenset({"mime"})
"""Columns that no field of the record is called like."""
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_LINK = {"type": "struct", "fields": [{**_TEXT, "field": "url"}, {**_TEXT, "field": "text"}]}
_TYPES: Mapping[Kind, Mapping[str, Any]] = {
    Kind.TEXT: _TEXT,
    Kind.WHOLE: {"type": "int64"},
    Kind.NUMBER: {"type": "double"},
    Kind.FLAG: {"type": "boolean"},
    Kind.TIME: _TEXT,
    # As on the topic: text in the charset of the page, or base64 where body_encoding says so.
    Kind.BYTES: _TEXT,
    Kind.TEXTS: _TEXTS,
    Kind.HEADERS: {"type": "map", "keys": _TEXT, "values": _TEXTS},
    Kind.LINKS: {"type": "array", "items": _LINK},
}
"""Of the fields on the topic. What is any JSON has no type there, and is left out."""
_FLAT = frozenset({"string", "int64", "double", "boolean"})


def connect_schema(*, only_flat: bool = False) -> Mapping[str, Any]:
    """For ``value.converter.schema.content``.

    ``only_flat``: without lists and maps, which few databases have columns for.
    """
    fields = [each for each in _fields() if not only_flat or each["type"] in _FLAT]
    return {"type": "struct", "name": "crawlstream.result", "fields": fields}


def _fields() -> Iterator[Mapping[str, Any]]:
    for column in COLUMNS:
        if column.kind in _TYPES and column.name not in _COMPUTED:
            yield _named(column.name, column.kind)
        if column.kind is Kind.BYTES:
            yield _named(f"{column.name}_encoding", Kind.TEXT)


def _named(name: str, kind: Kind) -> Mapping[str, Any]:
    return {"field": name, **_TYPES[kind], "optional": name not in _REQUIRED}
