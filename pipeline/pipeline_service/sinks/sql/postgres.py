"""PostgreSQL, by psycopg: rows come by COPY, into a temporary table, and from there into theirs."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import psycopg

from crawlstream.errors import ConfigError
from crawlstream.plugins.sinks import RowsRefused, SinkUnavailable
from pipeline_service.formats.columns import ColumnType
from pipeline_service.sinks.sql.database import Tuple, quoted

_JSON = "jsonb"
TYPES: Mapping[ColumnType, str] = MappingProxyType(
    {
        ColumnType.TEXT: "text",
        ColumnType.WHOLE: "bigint",
        ColumnType.NUMBER: "double precision",
        ColumnType.FLAG: "boolean",
        ColumnType.TIME: "timestamp with time zone",
        ColumnType.BYTES: "bytea",
        ColumnType.TEXTS: _JSON,
        ColumnType.WHOLES: _JSON,
        ColumnType.HEADERS: _JSON,
        ColumnType.LINKS: _JSON,
        ColumnType.JSON: _JSON,
    }
)
_FIT: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "text": ("text", "character varying", "citext"),
        "bigint": ("bigint", "numeric"),
        "double precision": ("double precision", "numeric"),
        "timestamp with time zone": ("timestamp with time zone",),
        "jsonb": ("jsonb", "json", "text"),
    }
)
CONNECT_S = 5
_OF_THE_ROWS = frozenset({"21", "22", "23", "44", "54", "P0"})
"""Classes of SQLSTATE that speak of what was written; all others pass, or are an operator's."""
_SESSION = (
    # A process that is frozen inside a transaction does not hold others up for longer.
    "set idle_in_transaction_session_timeout = '5s'",
    "set lock_timeout = '10s'",
    "set statement_timeout = '25s'",
    "set client_min_messages = 'warning'",
    # Commits are on the disk, also if the default of a role or database is another.
    (
        "select set_config('synchronous_commit', 'on', false)"
        " where current_setting('synchronous_commit') in ('off', 'local')"
    ),
)
_INCOMING = "crawlstream_incoming"


class Postgres:
    """Connection to PostgreSQL."""

    types = TYPES

    def __init__(self, url: str, application: str) -> None:
        self._url = url
        self._application = application
        self._connection: psycopg.Connection[Tuple] | None = None
        self._incoming = ""
        """The columns of the temporary table, as a list; empty: there is none."""

    def open(self) -> None:
        """Connect again. SinkUnavailable, ConfigError."""
        self.close()
        try:
            self._connection = psycopg.connect(
                self._url,
                application_name=self._application,
                connect_timeout=CONNECT_S,
                # Also where the environment has another or the database none (SQL_ASCII): otherwise
                # notes would be read as bytes, and never be found again.
                client_encoding="UTF8",
                tcp_user_timeout=20_000,
                # A machine that dies while a call waits for its answer sends nothing at all.
                keepalives_idle=10,
                keepalives_interval=5,
                keepalives_count=3,
            )
            with self._connection.transaction():
                for statement in _SESSION:
                    self._connection.execute(statement)
        except psycopg.ProgrammingError as error:
            raise ConfigError(
                "the URL of the sink cannot be read: expected"
                " postgresql://user:password@host:port/database"
            ) from error
        except psycopg.Error as error:
            raise SinkUnavailable(f"PostgreSQL cannot be connected to: {_said(error)}") from error

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection, self._incoming = self._connection, None, ""
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def interrupt(self) -> None:
        """Cut the connection; a call that waits for an answer fails at once."""
        connection = self._connection
        if connection is not None:
            with (
                contextlib.suppress(OSError, psycopg.Error),
                socket.socket(fileno=os.dup(connection.fileno())) as cut,
            ):
                cut.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def transaction(self) -> Iterator[_Transaction]:
        """Statements that are committed at the block's end, or undone when it raises."""
        if self._connection is None:
            raise SinkUnavailable("PostgreSQL is not connected")
        try:
            with self._connection.transaction():
                yield _Transaction(self, self._connection)
        except BaseException as error:
            self._incoming = ""  # It was made in a transaction that is undone.
            if (told := _judged(error)) is not None:
                raise told from error
            raise

    def fits(self, kind: ColumnType, declared: str) -> bool:
        """Return whether a column of a declared type can hold a kind."""
        wanted = TYPES[kind]
        return declared in _FIT.get(wanted, (wanted,))

    def has_incoming(self, columns: str) -> bool:
        """Return whether the temporary table is one with these columns."""
        has, self._incoming = self._incoming == columns, columns
        return has


class _Transaction:
    """Statements of one transaction."""

    lock = " for update"
    lock_free = " for update skip locked"

    def __init__(self, database: Postgres, connection: psycopg.Connection[Tuple]) -> None:
        self._database = database
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Sequence[Tuple]:
        """Run a statement; the rows that it answers."""
        cursor = self._connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else ()

    def now(self) -> float:
        """The server's time."""
        return float(self.execute("select extract(epoch from now())")[0][0])

    def stage(self, table: str, columns: Sequence[str], rows: Iterable[Tuple]) -> None:
        """Bring rows where ``insert`` finds them; blocks no other writer."""
        names = ", ".join(map(quoted, columns))
        if not self._database.has_incoming(names):
            self.execute(f"drop table if exists {_INCOMING}")
            self.execute(
                f"create temporary table {_INCOMING} on commit delete rows"
                f" as select {names} from {quoted(table)} with no data"
            )
        with self._connection.cursor() as cursor:
            copying = f"copy {_INCOMING} ({names}) from stdin"
            with cursor.copy(copying) as copy:
                for row in rows:
                    copy.write_row(row)

    def insert(self, table: str, columns: Sequence[str], *, replace: bool) -> Collection[object]:
        """Insert what was staged; answers the keys (of the first column) that are new."""
        key, names = quoted(columns[0]), ", ".join(map(quoted, columns))
        changed = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in columns[1:])
        found = self.execute(
            f"insert into {quoted(table)} as t ({names}) select {names} from {_INCOMING}"
            f" on conflict ({key}) do {f'update set {changed}' if replace else 'nothing'}"
            f" returning t.{key}, t.xmax = 0"
        )
        return {name for name, is_new in found if is_new}

    def columns(self, table: str) -> Mapping[str, str]:
        """Name and type of each column of a table; none where there is no such table."""
        found = self.execute(
            "select attname, format_type(atttypid, null) from pg_attribute"
            " where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped",
            [quoted(table)],
        )
        return {str(name): str(declared) for name, declared in found}

    def alone(self) -> None:
        """Exclude other changes of crawlstream's tables until the transaction ends."""
        self.execute("select pg_advisory_xact_lock(hashtext('crawlstream'))")

    def has_unique(self, table: str, column: str) -> bool:
        """Return whether no two rows can have one value of a column."""
        found = self.execute(
            "select 1 from pg_index join pg_attribute on attrelid = indrelid and attnum = indkey[0]"
            " where indrelid = to_regclass(%s) and indisunique and indnkeyatts = 1"
            " and indpred is null and attname = %s",
            [quoted(table), column],
        )
        return bool(found)

    def keep_outside(self, table: str, column: str) -> None:
        """Have large values of a column stored apart, uncompressed: pages are read whole."""
        self.execute(
            f"alter table {quoted(table)} alter column {quoted(column)} set storage external"
        )


def _judged(error: BaseException) -> RowsRefused | SinkUnavailable | None:
    """Return an error by its remedy; None: it is not an error of the database."""
    if isinstance(error, UnicodeEncodeError | OverflowError):
        return RowsRefused(f"PostgreSQL cannot hold it: {error}")
    if not isinstance(error, psycopg.Error):
        return None
    state = (error.sqlstate or "")[:2]
    if state in _OF_THE_ROWS or isinstance(error, psycopg.DataError):
        return RowsRefused(f"PostgreSQL refuses it: {_said(error)}")
    return SinkUnavailable(f"PostgreSQL: {_said(error)}")


def _said(error: psycopg.Error) -> str:
    """Return the server's message, on one line."""
    said = error.diag.message_primary or str(error)
    return " ".join(said.split())
