"""Notes in a table, and an effect in their transaction.

``crawlstream_notes`` is one table for all pipelines of a database: position and accounts of each
partition, and reports of runs. The process that has locked the row of a position writes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from crawlstream.plugins.sinks import Change, Notes, Row, SinkUnavailable
from pipeline_service.sinks.sql.database import Database, Transaction, Unforeseen
from pipeline_service.sinks.sql.notes import Notebook

_TRIES = 5
"""Transactions that may be begun again, each after a change by another process."""


class SqlEffect(Protocol):
    """Effect of rows on a database, in the transaction that moves the position."""

    def prepare(
        self, database: Database, transaction: Transaction, *, has_begun: bool, is_later: bool
    ) -> None:
        """Have the tables that it needs. ConfigError.

        ``has_begun``: this edition of the pipeline has stored something before; ``is_later``: only
        another edition has.
        """

    def foresee(self, database: Database, rows: Sequence[Row]) -> None:
        """Find what takes too long for the transaction, in transactions of its own."""

    def stage(self, transaction: Transaction, rows: Sequence[Row]) -> None:
        """Bring rows to the database; no lock is held yet."""

    def apply(self, transaction: Transaction, rows: Sequence[Row]) -> Collection[str]:
        """Have what was staged take effect; answers the keys that were there before.

        Unforeseen: the rows need more than `foresee` has found.
        """

    def committed(self) -> None:
        """Note that the last applied effect is committed."""


class NoEffect:
    """Effect of a reader that only looks at notes."""

    def prepare(
        self, database: Database, transaction: Transaction, *, has_begun: bool, is_later: bool
    ) -> None:
        """Nothing is needed."""

    def foresee(self, database: Database, rows: Sequence[Row]) -> None:
        """There is nothing to find."""

    def stage(self, transaction: Transaction, rows: Sequence[Row]) -> None:
        """There is nothing to bring."""

    def apply(self, transaction: Transaction, rows: Sequence[Row]) -> Collection[str]:
        """Nothing was there before."""
        return ()

    def committed(self) -> None:
        """Nothing was applied."""


class SqlStore:
    """The rows of one edition of a pipeline, and its notes."""

    knows_keys = True

    def __init__(
        self, database: Database, effect: SqlEffect, *, pipeline: str, edition: int
    ) -> None:
        self._database = database
        self._effect = effect
        self._notes = Notebook(pipeline, edition)

    def open(self) -> None:
        """Connect, and have the tables. SinkUnavailable, ConfigError."""
        self._database.open()
        with self._database.transaction() as transaction:
            self._prepare(transaction)

    def prove(self) -> None:
        """Show that ``open`` would do, and leave nothing behind; errors as there."""
        self._database.open()
        with suppress(_Undone), self._database.transaction() as transaction:
            self._prepare(transaction)
            raise _Undone

    def _prepare(self, transaction: Transaction) -> None:
        transaction.alone()
        self._notes.prepare(transaction)
        has_begun = bool(self._notes.select(transaction, "%/position", of="name like %s"))
        is_later = not has_begun and self._notes.has_other_edition(transaction)
        self._effect.prepare(self._database, transaction, has_begun=has_begun, is_later=is_later)

    def close(self) -> None:
        """Let go of the connection."""
        self._database.close()

    def interrupt(self) -> None:
        """Make the call in progress fail; from another thread."""
        self._database.interrupt()

    def take_over(self, name: str) -> None:
        """The row of the note is the lock."""

    def read(self, prefix: str) -> Mapping[str, str]:
        """All notes whose names begin so. SinkUnavailable."""
        with self._database.transaction() as transaction:
            of = f"substr(name, 1, {len(prefix)}) = %s"
            return self._notes.select(transaction, prefix, of=of)

    def keep(self, notes: Notes) -> None:
        """Write notes that have no other writer. SinkUnavailable."""
        with self._database.transaction() as transaction:
            self._notes.put(transaction, notes)

    def write(self, change: Change) -> bool:
        """Write rows and notes in one transaction; False if another process has written before.

        SinkUnavailable: they may be written although the call failed. RowsRefused: nothing was
        written.
        """
        for _ in range(_TRIES):
            self._effect.foresee(self._database, change.rows)
            try:
                self._commit(change)
            except _Undone:
                return False
            except Unforeseen:
                continue
            self._effect.committed()
            return True
        raise SinkUnavailable(f"other processes changed the same rows {_TRIES} times")

    def _commit(self, change: Change) -> None:
        with self._database.transaction() as transaction:
            self._effect.stage(transaction, change.rows)
            self._take_turn(transaction, change)
            repeats = self._effect.apply(transaction, change.rows)
            self._notes.put(transaction, change.settle(repeats))

    def _take_turn(self, transaction: Transaction, change: Change) -> None:
        """Lock the position until the transaction ends. _Undone: it is not the expected one."""
        if not self._notes.take_turn(transaction, change.name, change.expected):
            raise _Undone


class _Undone(Exception):
    """Raised to undo a transaction."""
