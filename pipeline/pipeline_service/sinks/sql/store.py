"""Notes in a table, and an effect in the same transaction.

``crawlstream_notes`` is one table for all pipelines of a database: position and accounts of each
partition, and what was told of runs. Whoever has locked the row of a position writes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from crawlstream.plugins.sinks import Change, Notes, Row
from pipeline_service.sinks.sql.database import Database, Transaction

NOTES = "crawlstream_notes"


class Effect(Protocol):
    """What rows do to a database, in the transaction that moves the position."""

    def prepare(self, database: Database, transaction: Transaction, *, has_begun: bool) -> None:
        """Have the tables that it needs. ConfigError.

        ``has_begun``: the pipeline has stored something before.
        """

    def stage(self, transaction: Transaction, rows: Sequence[Row]) -> None:
        """Bring rows to the database; nobody waits for us yet."""

    def apply(self, transaction: Transaction, rows: Sequence[Row]) -> Collection[str]:
        """Have what was staged take effect; answers the keys that were there before."""


class NoEffect:
    """Of one who only looks at notes."""

    def prepare(self, database: Database, transaction: Transaction, *, has_begun: bool) -> None:
        """Nothing is needed."""

    def stage(self, transaction: Transaction, rows: Sequence[Row]) -> None:
        """There is nothing to bring."""

    def apply(self, transaction: Transaction, rows: Sequence[Row]) -> Collection[str]:
        """Nothing was there before."""
        return ()


class SqlStore:
    """The rows of one edition of a pipeline, and its notes."""

    knows_keys = True

    def __init__(self, database: Database, effect: Effect, *, pipeline: str, edition: int) -> None:
        self._database = database
        self._effect = effect
        self._owner = (pipeline, edition)

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
        transaction.execute(
            f"create table if not exists {NOTES} (pipeline text not null,"
            " edition integer not null, name text not null, value text not null,"
            " primary key (pipeline, edition, name))"
        )
        has_begun = bool(self._select(transaction, "%/position", of="name like %s"))
        self._effect.prepare(self._database, transaction, has_begun=has_begun)

    def close(self) -> None:
        """Let go of the connection."""
        self._database.close()

    def interrupt(self) -> None:
        """Have the call under way fail; from another thread."""
        self._database.interrupt()

    def take_over(self, name: str) -> None:
        """The row of the note is the lock."""

    def read(self, prefix: str) -> Mapping[str, str]:
        """All notes whose names begin so. SinkUnavailable."""
        with self._database.transaction() as transaction:
            of = f"substr(name, 1, {len(prefix)}) = %s"
            return self._select(transaction, prefix, of=of)

    def keep(self, notes: Notes) -> None:
        """Write notes for which nobody else is responsible. SinkUnavailable."""
        with self._database.transaction() as transaction:
            self._put(transaction, notes)

    def write(self, change: Change) -> bool:
        """Write rows and notes in one transaction; False if somebody else has written before.

        SinkUnavailable: perhaps it is written all the same. RowsRefused: nothing was written.
        """
        try:
            with self._database.transaction() as transaction:
                self._effect.stage(transaction, change.rows)
                self._take_turn(transaction, change)
                repeats = self._effect.apply(transaction, change.rows)
                self._put(transaction, change.settle(repeats))
        except _Undone:
            return False
        return True

    def _take_turn(self, transaction: Transaction, change: Change) -> None:
        """Lock the position: nobody else moves it from now on. _Undone: it is another one."""
        if change.expected is None:
            found = transaction.execute(
                f"insert into {NOTES} (pipeline, edition, name, value) values (%s, %s, %s, '')"
                " on conflict (pipeline, edition, name) do nothing returning null",
                (*self._owner, change.name),
            )
        else:
            found = transaction.execute(
                f"select value from {NOTES} where pipeline = %s and edition = %s and name = %s"
                f"{self._database.lock}",
                (*self._owner, change.name),
            )
        if [tuple(row) for row in found] != [(change.expected,)]:
            raise _Undone

    def _select(self, transaction: Transaction, text: str, *, of: str) -> Mapping[str, str]:
        found = transaction.execute(
            f"select name, value from {NOTES} where pipeline = %s and edition = %s and {of}",
            (*self._owner, text),
        )
        return {str(name): str(value) for name, value in found}

    def _put(self, transaction: Transaction, notes: Notes) -> None:
        for name, value in notes.items():
            if value is None:
                transaction.execute(
                    f"delete from {NOTES} where pipeline = %s and edition = %s and name = %s",
                    (*self._owner, name),
                )
            else:
                transaction.execute(
                    f"insert into {NOTES} (pipeline, edition, name, value)"
                    " values (%s, %s, %s, %s) on conflict (pipeline, edition, name)"
                    " do update set value = excluded.value",
                    (*self._owner, name, value),
                )


class _Undone(Exception):
    """What the transaction did is not to be kept."""
