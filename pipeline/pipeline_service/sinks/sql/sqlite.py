"""SQLite, of the standard library: one file, which one transaction at a time may write."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from crawlstream.errors import ConfigError
from crawlstream.plugins.sinks import RowsRefused, SinkUnavailable
from pipeline_service.formats.columns import ColumnType
from pipeline_service.sinks.sql.database import Tuple, quoted

BUSY_S = 10.0
"""How long to wait for another process' transaction."""
_TEXT = "text"
TYPES: Mapping[ColumnType, str] = MappingProxyType(
    {
        ColumnType.TEXT: _TEXT,
        ColumnType.WHOLE: "integer",
        ColumnType.NUMBER: "real",
        ColumnType.FLAG: "integer",
        ColumnType.TIME: _TEXT,
        ColumnType.BYTES: "blob",
        ColumnType.TEXTS: _TEXT,
        ColumnType.WHOLES: _TEXT,
        ColumnType.HEADERS: _TEXT,
        ColumnType.LINKS: _TEXT,
        ColumnType.JSON: _TEXT,
    }
)
_PAUSES_S = (0.05, 0.2, 1.0)
_OF_THE_ROWS = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    OverflowError,
    UnicodeEncodeError,
)


class Sqlite:
    """Connection to a file."""

    types = TYPES

    def __init__(self, url: str) -> None:
        self._path = Path(url.removeprefix("sqlite:///"))
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Connect again, and make the file if there is none. SinkUnavailable, ConfigError."""
        self.close()
        try:
            self._connection = sqlite3.connect(
                self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            _write_ahead(self._connection)
            self._connection.execute("pragma synchronous = full")
        except sqlite3.DatabaseError as error:
            self.close()
            if not self._path.parent.is_dir():
                raise ConfigError(f"the folder of {self._path} does not exist") from error
            raise SinkUnavailable(f"{self._path} cannot be opened: {error}") from error

    def close(self) -> None:
        """Let go of the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def interrupt(self) -> None:
        """Make the statement in progress fail."""
        if self._connection is not None:
            self._connection.interrupt()

    @contextmanager
    def transaction(self) -> Iterator[_Transaction]:
        """Statements that are committed at the block's end, or undone when it raises."""
        if (connection := self._connection) is None:
            raise SinkUnavailable(f"{self._path} is not open")
        try:
            connection.execute("begin immediate")
            yield _Transaction(connection)
            connection.execute("commit")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                connection.rollback()
            if isinstance(error, _OF_THE_ROWS):
                raise RowsRefused(f"SQLite refuses it: {error}") from error
            if isinstance(error, sqlite3.Error):
                raise SinkUnavailable(f"{self._path}: {error}") from error
            raise

    def fits(self, kind: ColumnType, declared: str) -> bool:
        """Return whether a column can hold a kind: in SQLite every column holds anything."""
        return True


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Write into a log first. Two who make the same file do not wait for each other here."""
    for pause_s in _PAUSES_S:
        try:
            connection.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            time.sleep(pause_s)
        else:
            return
    connection.execute("pragma journal_mode = wal")


class _Transaction:
    """Statements of one transaction, which is alone."""

    lock = lock_free = ""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._staged: Sequence[Tuple] = ()

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Sequence[Tuple]:
        """Run a statement; the rows that it answers."""
        found: Sequence[Tuple] = self._connection.execute(
            statement.replace("%s", "?"), list(map(_as_stored, parameters))
        ).fetchall()
        return found

    def now(self) -> float:
        """The machine's time."""
        return time.time()

    def stage(self, table: str, columns: Sequence[str], rows: Sequence[Tuple]) -> None:
        """Keep rows for ``insert``."""
        self._staged = [tuple(map(_as_stored, row)) for row in rows]

    def insert(self, table: str, columns: Sequence[str], *, replace: bool) -> Collection[object]:
        """Insert what was staged; answers the keys (of the first column) that are new."""
        key, names = quoted(columns[0]), ", ".join(map(quoted, columns))
        marks = ", ".join("?" * len(columns))
        adding = f"insert into {quoted(table)} ({names}) values ({marks}) on conflict ({key}) do "
        new = set()
        for row in self._staged:
            if self._connection.execute(f"{adding} nothing", row).rowcount:
                new.add(row[0])
            elif replace:
                changed = ", ".join(f"{quoted(n)} = excluded.{quoted(n)}" for n in columns[1:])
                self._connection.execute(f"{adding} update set {changed}", row)
        return new

    def columns(self, table: str) -> Mapping[str, str]:
        """Name and type of each column of a table; none where there is no such table."""
        found = self.execute(f"pragma table_info({quoted(table)})")
        return {str(name): str(declared).lower() for _, name, declared, *_ in found}

    def alone(self) -> None:
        """A transaction that writes is alone."""

    def has_unique(self, table: str, column: str) -> bool:
        """Return whether no two rows can have one value of a column."""
        told = self.execute(f"pragma table_info({quoted(table)})")
        keys = [name for _, name, _, _, _, is_key in told if is_key]
        for _, name, is_unique, _, is_partial in self.execute(
            f"pragma index_list({quoted(table)})"
        ):
            columns = self.execute(f"pragma index_info({quoted(str(name))})")
            if is_unique and not is_partial and [each[2] for each in columns] == [column]:
                return True
        return keys == [column]

    def keep_outside(self, table: str, column: str) -> None:
        """SQLite has large values on pages of their own by itself."""


def _as_stored(value: object) -> object:
    """Times as text that sorts, and that SQLite's own functions read."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value
