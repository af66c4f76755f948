"""Rows of a pipeline whose stages do not store the page itself.

A row is the page with additional fields, until a user's function makes items: then it is an item,
with fields about its origin. In either case it has ``id``, the page's; an item has ``n``, too, its
number on the page, and an invalid row has ``_errors``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from crawlstream.model.delivered import Delivered
from crawlstream.wire import jsontext
from pipeline_service.formats.columns import COLUMNS, Column, ColumnType
from pipeline_service.spec.made import MADE
from pipeline_service.spec.schema import properties, types
from pipeline_service.spec.stages import StageSpec
from pipeline_service.spec.text_stages import minhash_version
from pipeline_service.stages.fields import kept_names

OF_AN_ITEM = ("appid", "crawlid", "spiderid", "run", "url", "timestamp")
"""Columns of its page in an item besides ``id`` and ``n``, unless it has fields so called."""
ERRORS, REST = "_errors", "_extra"
_BIGGEST = 1 << 63
_KEYS = ("id", "n")
_OF_A_BODY = ("body_encoding", "as_sent", "screenshot_body")
"""Fields of a record that go with its body."""


@dataclass(frozen=True, slots=True)
class StoreRow:
    """Row of a store."""

    page: Delivered
    value: bytes
    """The page's record."""
    fields: Mapping[str, Any]
    number: int | None = None
    """Number of an item on its page, from 0 on; None: the page itself."""
    errors: Sequence[str] = ()

    @property
    def key(self) -> str:
        """Permanent name of the row: the page's, and of an item its number as well."""
        return self.page.id if self.number is None else f"{self.page.id}:{self.number}"


@dataclass(slots=True)
class _Names:
    """Which columns there are, as stages go by."""

    base: dict[str, str]
    """Columns of the page, and how each is called."""
    made: dict[str, ColumnType] = field(default_factory=dict)
    """Fields that stages make, as far as it is known before."""


class Shape:
    """The columns of a pipeline's rows, and their records."""

    def __init__(self, stages: Sequence[StageSpec], schema: Mapping[str, Any] | None) -> None:
        self.has_items = any(spec.kind == "python" for spec in stages)
        """True if its rows are items; a page may have several of them then."""
        self._stages = _after_items(stages)
        names = _names(stages, schema or {})
        self._has_body = "body" in names.base
        self._base = {old: new for old, new in names.base.items() if new not in names.made}
        self._made = names.made
        self.columns = tuple(self._columns(stages))

    @property
    def fields(self) -> Collection[str]:
        """Fields that stages make, as far as they are known before."""
        return self._made.keys()

    def record(self, row: StoreRow) -> bytes:
        """A row as UTF-8 JSON."""
        base = _item_base(row) if self.has_items else _page_base(row)
        for options in self._stages:
            kept = kept_names([name for name in base if name not in _KEYS], options)
            keys = {name: base[name] for name in _KEYS if name in base}
            base = keys | {new: base[old] for old, new in kept.items()}
        for name in () if self._has_body else _OF_A_BODY:
            base.pop(name, None)
        errors = {ERRORS: list(row.errors)} if row.errors else {}
        return jsontext.dumps({**base, **row.fields, **errors})

    def _columns(self, stages: Sequence[StageSpec]) -> Sequence[Column]:
        sketch = next((spec for spec in reversed(stages) if spec.kind == "minhash"), None)
        versions = {ColumnType.WHOLES: minhash_version(sketch.options)} if sketch else {}
        taken = {column.name: column for column in (*COLUMNS, _NUMBER)}
        columns = [
            Column(new, taken[old].kind, taken[old].meaning, partial(_of_page, taken[old]))
            for old, new in self._base.items()
        ]
        columns += [
            Column(
                name, kind, "field of stages", partial(_field, name, kind), versions.get(kind, "")
            )
            for name, kind in self._made.items()
        ]
        if self.has_items or any("model" in spec.options for spec in stages):
            columns.append(Column(REST, ColumnType.JSON, "all other fields", self._rest))
        if any(spec.options.get("on_invalid") == "mark" for spec in stages):
            columns.append(Column(ERRORS, ColumnType.TEXTS, "what is invalid", _errors))
        return columns

    def _rest(self, row: StoreRow) -> str | None:
        """Fields that no column has, or whose value does not fit theirs."""
        rest = {
            name: value
            for name, value in row.fields.items()
            if name not in self._made
            or (value is not None and _fit(self._made[name], value) is None)
        }
        return jsontext.dumps(rest).decode() if rest else None


def _after_items(stages: Sequence[StageSpec]) -> Sequence[Mapping[str, Any]]:
    """The stages that say which fields a row has, after the last that makes items."""
    last = max((n for n, spec in enumerate(stages) if spec.kind == "python"), default=-1)
    return [spec.options for spec in stages[last + 1 :] if spec.kind == "fields"]


def _names(stages: Sequence[StageSpec], schema: Mapping[str, Any]) -> _Names:
    names = _Names({column.name: column.name for column in COLUMNS})
    for spec in stages:
        if spec.kind == "python":
            names = _Names({name: name for name in (*_KEYS, *OF_AN_ITEM)})
        elif spec.kind == "fields":
            _rename(names, spec.options)
        elif spec.kind == "validate":
            names.made |= {name: kind_of(rule) for name, rule in properties(schema).items()}
        else:
            names.made = {**MADE.get(spec.kind, {}), **names.made}
            if spec.options.get("simhash"):
                names.made.setdefault("simhash", ColumnType.WHOLE)
    return names


def _rename(names: _Names, options: Mapping[str, Any]) -> None:
    kept = kept_names([new for new in names.base.values() if new not in _KEYS], options)
    kept |= {key: key for key in _KEYS}
    names.base = {old: kept[new] for old, new in names.base.items() if new in kept}
    made = kept_names(list(names.made), options)
    names.made = {new: names.made[old] for old, new in made.items()}


def kind_of(rule: Mapping[str, Any]) -> ColumnType:
    """The column that holds what a rule of JSON Schema allows; JSON where that may be anything."""
    told = types(rule)
    if told == {"array"} and types(rule.get("items") or {}) == {"string"}:
        return ColumnType.TEXTS
    if told == {"number", "integer"}:
        return ColumnType.NUMBER
    return _KINDS.get(next(iter(told), ""), ColumnType.JSON) if len(told) == 1 else ColumnType.JSON


_KINDS: Mapping[str, ColumnType] = {
    "string": ColumnType.TEXT,
    "integer": ColumnType.WHOLE,
    "number": ColumnType.NUMBER,
    "boolean": ColumnType.FLAG,
}
_NUMBER = Column("n", ColumnType.WHOLE, "number of the item on its page", lambda row: row.number)


def _of_page(column: Column, row: StoreRow) -> object:
    return column.take(row) if column is _NUMBER else column.take(row.page)


def _field(name: str, kind: ColumnType, row: StoreRow) -> object:
    return _fit(kind, row.fields.get(name))


def _errors(row: StoreRow) -> object:
    return list(row.errors) or None


def _fit(kind: ColumnType, value: Any) -> Any:
    """A value as its column holds it; None if it does not fit."""
    match kind:
        case ColumnType.JSON:
            return None if value is None else jsontext.dumps(value).decode()
        case ColumnType.TEXT:
            return value if isinstance(value, str) else None
        case ColumnType.FLAG:
            return value if isinstance(value, bool) else None
        case ColumnType.TEXTS:
            return value if _are(value, str) else None
        case ColumnType.WHOLES:
            return value if _are(value, int) else None
        case _:
            return _number(kind, value)


def _are(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(isinstance(each, kind) for each in values)


def _number(kind: ColumnType, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if kind is ColumnType.NUMBER:
        return float(value)
    return int(value) if int(value) == value and -_BIGGEST <= value < _BIGGEST else None


def _item_base(row: StoreRow) -> dict[str, Any]:
    page = row.page
    told = {name: getattr(page, name) for name in OF_AN_ITEM if name != "timestamp"}
    at = page.timestamp.replace(tzinfo=None).isoformat()
    return {"id": page.id, "n": row.number, **told, "timestamp": at}


def _page_base(row: StoreRow) -> dict[str, Any]:
    record: Any = jsontext.loads(row.value)
    return dict(record)
