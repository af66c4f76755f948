"""A connection of its own to the database of a memory, which others write to as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from crawlstream.plugins.sinks import SinkUnavailable
from pipeline_service.sinks.sql.database import Database, Transaction
from pipeline_service.sinks.sql.store import SqlStore


class MemoryClient:
    """Uses the tables of one memory in transactions; calls block, one at a time.

    All raise SinkUnavailable; the first one after an error ConfigError as well.
    """

    def __init__(self, database: Database, memory: SqlStore) -> None:
        """``memory`` is that of the pipeline, on the same database."""
        self._database = database
        self._memory = memory
        self._is_open = False

    def close(self) -> None:
        """Let go of the connection."""
        self._is_open = False
        self._database.close()

    def interrupt(self) -> None:
        """Make the call in progress fail; from another thread."""
        self._database.interrupt()

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        if not self._is_open:
            self._memory.open()
            self._is_open = True
        try:
            with self._database.transaction() as transaction:
                yield transaction
        except SinkUnavailable:
            self._is_open = False
            raise
