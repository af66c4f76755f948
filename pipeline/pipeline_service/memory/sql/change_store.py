"""The process that publishes the changes of a memory now, and these changes."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline_service.memory.sql.change_outbox import ChangeOutbox
from pipeline_service.memory.sql.memory_client import MemoryClient
from pipeline_service.sinks.sql.database import Database
from pipeline_service.sinks.sql.notes import Notebook
from pipeline_service.sinks.sql.store import SqlStore
from pipeline_service.spec.config import Pipeline

MOST_AT_ONCE = 500
TURN_S = 10.0
"""Time for which one process may publish changes; after it, any process may."""
_TURN = "changes"
"""The note that names this process."""


class ChangeStore(MemoryClient):
    """The changes of one memory."""

    def __init__(
        self, database: Database, memory: SqlStore, outbox: ChangeOutbox, pipeline: Pipeline
    ) -> None:
        super().__init__(database, memory)
        self._outbox = outbox
        self._notes = Notebook(pipeline.name, pipeline.edition)
        self._has_turn = False

    def claim(self, owner: str) -> Sequence[tuple[str, str]] | None:
        """Return key and value of changes for ``owner`` to publish now.

        None: no change waits. Empty: another process publishes them.
        """
        with self._transaction() as transaction:
            if not self._outbox.oldest(transaction, 1):
                if self._has_turn:
                    self._notes.put(transaction, {_TURN: None})
                self._has_turn = False
                return None
            turn, now = self._notes.lock(transaction, _TURN), transaction.now()
            if turn.get("by", owner) != owner and now < turn["until"] <= now + TURN_S:
                return ()
            self._notes.put_object(transaction, _TURN, {"by": owner, "until": now + TURN_S})
            self._has_turn = True
            # Again: who had the turn before may have published some meanwhile.
            return self._outbox.oldest(transaction, MOST_AT_ONCE)

    def published(self, keys: Sequence[str]) -> None:
        """Note that Kafka has these changes."""
        with self._transaction() as transaction:
            self._outbox.remove(transaction, keys)
