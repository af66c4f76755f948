"""Rows out of what was judged: a page is one, or what the stages have made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from crawlstream.errors import ConfigError
from crawlstream.model.delivered import Delivered
from crawlstream.plugins.sinks import Row
from crawlstream.store.bodies import BodyStore
from pipeline_service.formats.columns import COLUMNS, Column
from pipeline_service.records.judging import Judged, Wanted
from pipeline_service.records.rows import Shape
from pipeline_service.spec.sinks import SqlSpec

BODY, KEY = "body", "id"
_LONGEST_NAME = 63
"""Bytes of a column's name in PostgreSQL; it cuts what is longer."""


def columns_of(shape: Shape | None, *, with_body: bool = True) -> Sequence[Column]:
    """Return the columns of rows; ``shape`` is of rows that are not the pages themselves."""
    columns = COLUMNS if shape is None else shape.columns
    return [column for column in columns if with_body or column.name != BODY]


def check_body(shape: Shape, body: str) -> None:
    """ConfigError for rows that have no bodies."""
    if body != "none" and shape.has_items:
        raise ConfigError(f'body = "{body}" is for pages, but the stages make items: remove it')


def check_columns(shape: Shape, sink: SqlSpec) -> None:
    """ConfigError for rows that do not go into a table."""
    check_body(shape, sink.body)
    if sink.on_repeat == "replace" and shape.has_items:
        raise ConfigError(
            'on_repeat = "replace" would leave items behind that a page has no more: for a new'
            " edition, name another table"
        )
    if KEY in shape.fields:
        raise ConfigError(
            f"the stages make a field {KEY}, but {KEY} is the key of the table: rename the field,"
            ' by a stage {use = "fields", rename = {id = "…"}}'
        )
    taken: set[str] = set()
    for column in shape.columns:
        name = column.name
        if not 0 < len(name.encode()) <= _LONGEST_NAME or "\x00" in name or name.lower() in taken:
            raise ConfigError(
                f"the field {name!r} cannot be a column of a table: a name has 1 to"
                f" {_LONGEST_NAME} bytes, and no two differ in capitals only; rename it by a stage"
                ' "fields"'
            )
        taken.add(name.lower())


class RowMaker:
    """Makes rows with certain columns; calls take CPU time, and those of a body store block."""

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        shape: Shape | None = None,
        bodies: BodyStore | None = None,
        replaces: bool = False,
    ) -> None:
        """Make rows of ``columns``: none for a store that takes the rows as JSON.

        ``shape`` is of rows that are not the pages themselves. ``bodies``: where bodies are kept.
        ``replaces``: of a page that comes twice the last counts.
        """
        self.columns = columns
        self.makes_items = shape is not None and shape.has_items
        """True if a page may have several rows."""
        self._shape = shape
        self._has_ref = any(column.name == "body_ref" for column in columns)
        self._bodies = bodies if self._has_ref else None
        self._replaces = replaces

    def rows(
        self, judged: Sequence[Judged], is_known: Callable[[str], bool] = lambda _: False
    ) -> Sequence[Row]:
        """Return rows of pages whose ids are not known; no two have one key. StoreUnavailable."""
        chosen: dict[str, Judged] = {}
        for each in judged:
            if not each.id or is_known(each.id):
                continue
            if self._replaces and isinstance(each, Wanted):
                chosen.pop(each.id, None)
            chosen.setdefault(each.id, each)
        return [
            row for each in chosen.values() if isinstance(each, Wanted) for row in self._rows(each)
        ]

    def _rows(self, judged: Wanted) -> Iterator[Row]:
        page, offset, shape = judged.page, judged.record.offset, self._shape
        if judged.rows is None or shape is None:
            fields = {column.name: column.take(page) for column in self.columns}
            yield self._with_body(Row(page.id, offset, fields, judged.value), page)
            return
        for row in judged.rows:
            fields = {column.name: column.take(row) for column in self.columns}
            yield self._with_body(Row(row.key, offset, fields, shape.record(row)), page)

    def _with_body(self, row: Row, page: Delivered) -> Row:
        if self._bodies is None or page.body_ref is not None:
            return row
        return replace(row, fields={**row.fields, "body_ref": self._kept(page, self._bodies)})

    def _kept(self, page: Delivered, bodies: BodyStore) -> str | None:
        """The URL of a whole body; None for one that is cut, or empty."""
        return None if page.body_truncated or not page.body else bodies.put(page.body)
