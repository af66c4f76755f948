"""The effect of rows on a table, which is made, checked and widened at the start."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter

from crawlstream.errors import ConfigError
from crawlstream.plugins.sinks import Row, RowsRefused
from pipeline_service.formats.columns import ColumnType
from pipeline_service.sinks.sql.database import Database, Transaction, quoted
from pipeline_service.sinks.sql.values import values_of

KEY = "id"


class TableEffect:
    """Writes rows into one table, whose key is ``id``."""

    def __init__(
        self,
        table: str,
        kinds: Mapping[str, ColumnType],
        *,
        replace: bool,
        migrate: bool,
        of_items: bool = False,
    ) -> None:
        """``kinds``: what each column holds; ``id`` is among them.

        ``of_items``: a page may have several rows, and other ones in another edition.
        """
        self._table = table
        self._kinds = {KEY: kinds[KEY], **kinds}
        self._columns = list(self._kinds)
        self._replace = replace
        self._migrate = migrate
        self._of_items = of_items

    def prepare(
        self, database: Database, transaction: Transaction, *, has_begun: bool, is_later: bool
    ) -> None:
        """Have a table that fits. ConfigError."""
        there = transaction.columns(self._table)
        if not there:
            if has_begun:
                raise ConfigError(
                    f"the table {self._table} is gone, but the pipeline has written to it: restore"
                    " it, or begin a new edition of the pipeline"
                )
            self._make(database, transaction)
            return
        if is_later and self._of_items and self._has_rows(transaction):
            raise ConfigError(
                f"the table {self._table} has items of another edition of the pipeline, which would"
                " stay as they are: name another table, or empty this one"
            )
        if lacking := [name for name in self._columns if name not in there]:
            self._add(database, transaction, lacking)
        for name in there.keys() & self._kinds.keys():
            if not database.fits(self._kinds[name], there[name]):
                raise ConfigError(
                    f"the column {name} of the table {self._table} is {there[name]}; expected"
                    f" {database.types[self._kinds[name]]}: name another table"
                )
        if not transaction.has_unique(self._table, KEY):
            raise ConfigError(
                f"the column {KEY} of the table {self._table} is neither its primary key nor"
                " unique: add a unique index on it, or name another table"
            )

    def stage(self, transaction: Transaction, rows: Sequence[Row]) -> None:
        """Bring rows to the database."""
        if rows:
            take = itemgetter(*self._columns)
            values = [take(self._values(row)) for row in rows]
            transaction.stage(self._table, self._columns, values)

    def apply(self, transaction: Transaction, rows: Sequence[Row]) -> Collection[str]:
        """Insert what was staged; answers the keys that were there before."""
        if not rows:
            return ()
        new = transaction.insert(self._table, self._columns, replace=self._replace)
        return {row.key for row in rows if row.key not in new}

    def foresee(self, database: Database, rows: Sequence[Row]) -> None:
        """Do nothing: rows are inserted as they are."""

    def committed(self) -> None:
        """Do nothing: the table keeps no state."""

    def _has_rows(self, transaction: Transaction) -> bool:
        return bool(list(transaction.execute(f"select 1 from {quoted(self._table)} limit 1")))

    def _values(self, row: Row) -> Mapping[str, object]:
        if "\x00" in row.key:
            raise RowsRefused("its id has a NUL, which a key cannot have", [row.key])
        return {**values_of(self._kinds, row.fields), KEY: row.key}

    def _make(self, database: Database, transaction: Transaction) -> None:
        columns = ", ".join(
            f"{quoted(name)} {database.types[kind]}{' primary key' if name == KEY else ''}"
            for name, kind in self._kinds.items()
        )
        transaction.execute(f"create table {quoted(self._table)} ({columns})")
        for name, kind in self._kinds.items():
            if kind is ColumnType.BYTES:
                transaction.keep_outside(self._table, name)

    def _add(self, database: Database, transaction: Transaction, lacking: Sequence[str]) -> None:
        if not self._migrate or KEY in lacking:
            raise ConfigError(
                f"the table {self._table} has no column {', '.join(lacking)}: set migrate = true to"
                " have them added, or name another table"
            )
        for name in lacking:
            transaction.execute(
                f"alter table {quoted(self._table)} add column"
                f" {quoted(name)} {database.types[self._kinds[name]]}"
            )
