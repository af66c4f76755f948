"""The process that sends the changes of a memory to its webhook now, and these changes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline_service.memory.page_changes import ChangeEvent
from pipeline_service.memory.sql.memory_client import MemoryClient
from pipeline_service.memory.sql.webhook_queue import WaitingChange, WebhookQueue
from pipeline_service.sinks.sql.database import Database
from pipeline_service.sinks.sql.notes import Notebook
from pipeline_service.sinks.sql.store import SqlStore
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.rule import DAY_S

TURN_S = 45.0
"""Time for which one process may send changes, longer than an attempt; then any process may."""
KEPT_S = DAY_S
"""How long a change is sent again."""
MOST_GIVEN_UP = 500
"""Changes that are given up at once."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 6 * 3_600.0
_MOST_DOUBLINGS = 13
_TURN = "webhook"
"""The note that names this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookClaim:
    """Changes to send now, and changes to give up."""

    due: Sequence[WaitingChange] = ()
    late: Sequence[WaitingChange] = ()
    oldest_s: float = 0.0
    """How long the oldest change has waited."""


class WebhookStore(MemoryClient):
    """The changes of one memory that its webhook has not taken yet."""

    def __init__(
        self, database: Database, memory: SqlStore, queue: WebhookQueue, pipeline: Pipeline
    ) -> None:
        super().__init__(database, memory)
        self._queue = queue
        self._notes = Notebook(pipeline.name, pipeline.edition)
        self._has_turn = False

    def claim(self, owner: str, most: int) -> WebhookClaim:
        """Return what ``owner`` is to do now; nothing while it is the turn of another process."""
        with self._transaction() as transaction:
            since = self._queue.since(transaction)
            if since is None:
                if self._has_turn:
                    self._notes.put(transaction, {_TURN: None})
                self._has_turn = False
                return WebhookClaim()
            turn, now = self._notes.lock(transaction, _TURN), transaction.now()
            oldest_s = max(now - since, 0.0)
            if turn.get("by", owner) != owner and now < turn["until"] <= now + TURN_S:
                return WebhookClaim(oldest_s=oldest_s)
            self._notes.put_object(transaction, _TURN, {"by": owner, "until": now + TURN_S})
            self._has_turn = True
            late = self._queue.late(transaction, now - KEPT_S, MOST_GIVEN_UP)
            due = () if late else self._queue.due(transaction, now, most)
            return WebhookClaim(due=due, late=late, oldest_s=oldest_s)

    def note(self, gone: Sequence[str], failed: Mapping[str, tuple[int, str]]) -> None:
        """Remove changes by their keys; postpone others: earlier attempts, and why it failed."""
        with self._transaction() as transaction:
            if gone:
                self._queue.remove(transaction, gone)
            now = transaction.now()
            for key, (tries, why) in failed.items():
                self._queue.postpone(transaction, key, now + _pause_s(tries), why)

    def add(self, event: ChangeEvent) -> bool:
        """Have a change sent again, for another day; False: too many wait."""
        with self._transaction() as transaction:
            if self._queue.is_full(transaction):
                return False
            self._queue.add(transaction, [event])
            return True


def _pause_s(tries: int) -> float:
    """Return the pause after an attempt: about twice the one before, with a random part."""
    pause_s = min(_FIRST_PAUSE_S * 2.0 ** min(tries, _MOST_DOUBLINGS), _LONGEST_PAUSE_S)
    return pause_s * random.uniform(0.8, 1.2)  # noqa: S311  no secret
