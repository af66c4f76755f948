"""Types of the fields of an index, as its mapping has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pipeline_service.formats.columns import Column, ColumnType

_ANALYSED = frozenset({"text", "markdown", "title", "description"})
"""Fields whose words are searched for; other text is one term."""
_KEYWORD: Mapping[str, Any] = MappingProxyType({"type": "keyword", "ignore_above": 8191})
"""Characters of a term, which has 32766 bytes at most; a longer one is stored, but not found."""
_STORED: Mapping[str, Any] = MappingProxyType({"type": "object", "enabled": False})
"""Values of any shape: they are returned with the document, and not searched."""
_PROPERTIES: Mapping[ColumnType, Mapping[str, Any]] = MappingProxyType(
    {
        ColumnType.TEXT: _KEYWORD,
        ColumnType.TEXTS: _KEYWORD,
        ColumnType.WHOLE: {"type": "long"},
        ColumnType.WHOLES: {"type": "long"},
        ColumnType.NUMBER: {"type": "double"},
        ColumnType.FLAG: {"type": "boolean"},
        ColumnType.TIME: {"type": "date"},
        ColumnType.HEADERS: _STORED,
        ColumnType.LINKS: _STORED,
        ColumnType.JSON: _STORED,
    }
)
_TEXTS = {"keyword", "text", "wildcard", "match_only_text", "search_as_you_type", "semantic_text"}
_OBJECTS = {"object", "flattened", "flat_object", "nested"}
_FIT: Mapping[ColumnType, Collection[str]] = MappingProxyType(
    {
        ColumnType.TEXT: _TEXTS,
        ColumnType.TEXTS: _TEXTS,
        ColumnType.WHOLE: {"long", "double", "keyword"},
        ColumnType.WHOLES: {"long", "double", "keyword"},
        ColumnType.NUMBER: {"double", "float", "keyword"},
        ColumnType.FLAG: {"boolean", "keyword"},
        ColumnType.TIME: {"date", "date_nanos"},
        ColumnType.HEADERS: _OBJECTS,
        ColumnType.LINKS: _OBJECTS,
        ColumnType.JSON: _OBJECTS,
    }
)
"""Types that an index which the operator has created may have for a field."""


def properties_of(columns: Sequence[Column]) -> Mapping[str, Mapping[str, Any]]:
    """Return the mapping of each field."""
    return {
        column.name: {"type": "text"}
        if column.kind is ColumnType.TEXT and column.name in _ANALYSED
        else _PROPERTIES[column.kind]
        for column in columns
    }


def misfit(column: Column, property_: Mapping[str, Any]) -> str:
    """Return the type that a field has in an index, if it cannot hold the column; else empty."""
    found = str(property_.get("type", "object"))
    return "" if found in _FIT[column.kind] else found
