"""Values as columns of SQL take them: JSON as text, and no NUL, which PostgreSQL refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlstream.wire import jsontext
from pipeline_service.formats.columns import ColumnType
from pipeline_service.records.rows import REST

EXTRA = "extra"
"""Where a page keeps the rest of its fields; an item does in REST."""
_JSON = frozenset(
    {
        ColumnType.TEXTS,
        ColumnType.WHOLES,
        ColumnType.HEADERS,
        ColumnType.LINKS,
        ColumnType.JSON,
    }
)
_NUL, _ESCAPED = "\x00", "\\u0000"


def values_of(kinds: Mapping[str, ColumnType], fields: Mapping[str, Any]) -> dict[str, Any]:
    """By column: a row whose texts have no NUL; which ones had is said in ``nul`` of the rest."""
    made, had_nul = {}, []
    for name, kind in kinds.items():
        value = fields.get(name)
        if value is not None:
            if kind in _JSON:
                value, has_nul = _json(kind, value)
            else:
                has_nul = kind is ColumnType.TEXT and _NUL in value
                value = value.replace(_NUL, "") if has_nul else value
            if has_nul:
                had_nul.append(name)
        made[name] = value
    rest = REST if REST in made else EXTRA
    if had_nul and kinds.get(rest) is ColumnType.JSON:
        told: Any = jsontext.loads((made[rest] or "{}").encode())
        if isinstance(told, dict):
            made[rest] = jsontext.dumps({**told, "nul": had_nul}).decode()
    return made


def _json(kind: ColumnType, value: Any) -> tuple[str, bool]:
    """A value as JSON without NUL, and whether it had one."""
    if kind is ColumnType.LINKS:
        value = [{"url": url, "text": text} for url, text in value]
    is_text = kind is ColumnType.JSON and isinstance(value, str)
    text: str = value if is_text else jsontext.dumps(value).decode()
    if _ESCAPED not in text:
        return text, False
    # A backslash before it may be one that is escaped itself.
    read = jsontext.loads(text.encode())
    bare = _stripped(read)
    return (text, False) if bare == read else (jsontext.dumps(bare).decode(), True)


def _stripped(value: object) -> object:
    if isinstance(value, str):
        return value.replace(_NUL, "")
    if isinstance(value, Mapping):
        return {_stripped(name): _stripped(value[name]) for name in value}
    return [_stripped(each) for each in value] if isinstance(value, list) else value
