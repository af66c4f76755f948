"""Schema of the records of results for Kafka Connect's JsonConverter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline_service.formats.columns import COLUMNS, ColumnType

_REQUIRED = frozenset(
    {"id", "appid", "crawlid", "spiderid", "run", "url", "response_url", "status_code", "timestamp"}
)
_COMPUTED = frozenset({"mime"})
"""Columns that are not fields of the record."""
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_LINK = {"type": "struct", "fields": [{**_TEXT, "field": "url"}, {**_TEXT, "field": "text"}]}
_TYPES: Mapping[ColumnType, Mapping[str, Any]] = {
    ColumnType.TEXT: _TEXT,
    ColumnType.WHOLE: {"type": "int64"},
    ColumnType.NUMBER: {"type": "double"},
    ColumnType.FLAG: {"type": "boolean"},
    ColumnType.TIME: _TEXT,
    # As on the topic: text in the charset of the page, or base64 as body_encoding says.
    ColumnType.BYTES: _TEXT,
    ColumnType.TEXTS: _TEXTS,
    ColumnType.HEADERS: {"type": "map", "keys": _TEXT, "values": _TEXTS},
    ColumnType.LINKS: {"type": "array", "items": _LINK},
}
"""Types of the fields on the topic. Fields with any JSON have no type there and are left out."""
_FLAT = frozenset({"string", "int64", "double", "boolean"})


def connect_schema(*, only_flat: bool = False) -> Mapping[str, Any]:
    """Return the schema for ``value.converter.schema.content``.

    ``only_flat`` leaves out lists and maps, for which few databases have columns.
    """
    fields = [each for each in _fields() if not only_flat or each["type"] in _FLAT]
    return {"type": "struct", "name": "crawlstream.result", "fields": fields}


def _fields() -> Iterator[Mapping[str, Any]]:
    for column in COLUMNS:
        if column.kind in _TYPES and column.name not in _COMPUTED:
            yield _named(column.name, column.kind)
        if column.kind is ColumnType.BYTES:
            yield _named(f"{column.name}_encoding", ColumnType.TEXT)


def _named(name: str, kind: ColumnType) -> Mapping[str, Any]:
    return {"field": name, **_TYPES[kind], "optional": name not in _REQUIRED}
