"""Interface of a database: transactions, and errors by their remedy."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Protocol

from pipeline_service.formats.columns import ColumnType

Tuple = tuple[Any, ...]
_AT_ONCE = 500
"""Keys of one statement."""
_LONGEST_OF_AN_INDEX = 40
"""Characters of its table in the name of an index: PostgreSQL takes 63 in all."""


class Unforeseen(Exception):
    """Rows need something that was not found before the transaction: begin again."""


class Transaction(Protocol):
    """Statements that take effect together; parameters are ``%s``, times aware."""

    lock: str
    """End of a ``select`` that locks its rows until the transaction ends."""
    lock_free: str
    """End of a ``select`` that locks its rows, and leaves out rows that are locked already."""

    def now(self) -> float:
        """The database's time, in epoch seconds."""

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Sequence[Tuple]:
        """Run a statement; the rows that it answers."""

    def stage(self, table: str, columns: Sequence[str], rows: Sequence[Tuple]) -> None:
        """Bring rows where ``insert`` finds them; blocks no other writer."""

    def insert(self, table: str, columns: Sequence[str], *, replace: bool) -> Collection[object]:
        """Insert what was staged; answers the keys (of the first column) that are new.

        Rows whose keys are there stay as they are, or are replaced.
        """

    def alone(self) -> None:
        """Exclude other changes of crawlstream's tables until the transaction ends."""

    def columns(self, table: str) -> Mapping[str, str]:
        """Name and type of each column of a table; none where there is no such table."""

    def has_unique(self, table: str, column: str) -> bool:
        """Return whether no two rows can have one value of a column."""

    def keep_outside(self, table: str, column: str) -> None:
        """Have large values of a column stored apart, uncompressed, where that is a choice."""


class Database(Protocol):
    """A connection to a database; calls block, one at a time.

    All raise SinkUnavailable for what passes, RowsRefused for what the database will never take.
    """

    types: Mapping[ColumnType, str]
    """How it calls what a column holds."""

    def open(self) -> None:
        """Connect again. ConfigError where that can never succeed."""

    def close(self) -> None:
        """Let go of the connection."""

    def interrupt(self) -> None:
        """Make the call in progress fail; from another thread."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Statements that are committed at the block's end, or undone when it raises."""

    def fits(self, kind: ColumnType, declared: str) -> bool:
        """Return whether a column of a declared type can hold a kind."""


def quoted(name: str) -> str:
    """An identifier as statements have it."""
    return '"' + name.replace('"', '""') + '"'


def index_of(table: str, column: str) -> str:
    """Return the identifier of an index, which no other table of the database has."""
    if len(table) > _LONGEST_OF_AN_INDEX:
        digest = hashlib.blake2b(table.encode(), digest_size=4).hexdigest()
        table = f"{table[: _LONGEST_OF_AN_INDEX - len(digest)]}{digest}"
    return quoted(f"{table}_{column}")


def batches(keys: Sequence[str]) -> Iterator[list[str]]:
    """Keys, as many as a statement takes at once."""
    rest = iter(keys)
    while some := list(islice(rest, _AT_ONCE)):
        yield some


def as_time(seconds: float | None) -> datetime | None:
    """Epoch seconds as columns hold a time."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def seconds_of(value: datetime | str | None) -> float | None:
    """Epoch seconds of what a column holds."""
    if value is None:
        return None
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return at.timestamp()
