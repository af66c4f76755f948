"""Table of the changes that a webhook has not taken yet, written with the memory.

A change enters it in the transaction that learns the change, besides the outbox, and leaves it when
the receiver has answered with 2xx, or when it was given up. Of each page only the oldest change is
due, so changes of a page are sent in their order; other pages do not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeline_service.formats.columns import ColumnType
from pipeline_service.memory.page_changes import ChangeEvent
from pipeline_service.sinks.sql.database import (
    Database,
    Transaction,
    as_time,
    index_of,
    quoted,
    seconds_of,
)

_SUFFIX = "_unsent"
MOST_WAITING = 100_000
"""Maximum number of changes that wait; beyond, the oldest are given up."""


class WaitingChange(NamedTuple):
    """Change that waits for the receiver."""

    key: str
    value: str
    """JSON of the event."""
    tries: int
    why: str
    """Reason why the last attempt failed, or why it is given up; empty: there was no attempt."""

    def given_up(self, reason: str) -> WaitingChange:
        """Return the change with the reason why it will not be sent."""
        return self._replace(why=f"{reason}; {self.why or 'there was no attempt'}")


class WebhookQueue:
    """The changes of one memory for its webhook; every call is part of a transaction."""

    def __init__(self, table: str) -> None:
        """``table`` is that of the memory."""
        self._table = table + _SUFFIX
        self._name = quoted(self._table)

    def prepare(self, database: Database, transaction: Transaction) -> None:
        """Have the table, and its indexes."""
        if transaction.columns(self._table):
            return
        text, time = database.types[ColumnType.TEXT], database.types[ColumnType.TIME]
        transaction.execute(
            f"create table {self._name} (key {text} primary key, page {text} not null,"
            f" at {time} not null, value {text} not null, since {time} not null,"
            f" due {time} not null, tries {database.types[ColumnType.WHOLE]} not null,"
            f" why {text} not null)"
        )
        for name, columns in {"page": "page, at", "due": "due", "since": "since"}.items():
            index = index_of(self._table, name)
            transaction.execute(f"create index {index} on {self._name} ({columns})")

    def add(self, transaction: Transaction, events: Sequence[ChangeEvent]) -> None:
        """Have events sent, from now on."""
        now = as_time(transaction.now())
        for event in events:
            transaction.execute(
                f"insert into {self._name} (key, page, at, value, since, due, tries, why)"
                " values (%s, %s, %s, %s, %s, %s, 0, '') on conflict (key) do nothing",
                (event.key, event.page, as_time(event.at), event.value, now, now),
            )

    def is_full(self, transaction: Transaction) -> bool:
        """Return whether one more change would make the oldest one be given up."""
        waiting = f"select 1 as one from {self._name} limit {MOST_WAITING}"
        counted = transaction.execute(f"select count(*) from ({waiting}) as counted")
        return int(counted[0][0]) >= MOST_WAITING

    def since(self, transaction: Transaction) -> float | None:
        """Return when the oldest change began to wait; None: none waits."""
        found = transaction.execute(f"select min(since) from {self._name}")
        return seconds_of(found[0][0])

    def due(self, transaction: Transaction, now: float, most: int) -> Sequence[WaitingChange]:
        """Return changes to send now, each the oldest of its page."""
        return self._some(
            transaction,
            f"where due <= %s and not exists (select 1 from {self._name} as older"
            f" where older.page = waiting.page and older.at < waiting.at)"
            f" order by due limit {int(most)}",
            as_time(now),
        )

    def late(self, transaction: Transaction, before: float, most: int) -> Sequence[WaitingChange]:
        """Return changes to give up: those that wait since before then, or are too many."""
        counted = transaction.execute(
            f"select count(*) from (select 1 as one from {self._name} limit {MOST_WAITING + most})"
            " as counted"
        )
        if (over := int(counted[0][0]) - MOST_WAITING) > 0:
            found = self._some(transaction, f"order by since limit {min(over, most)}")
            return [each.given_up("too many changes waited") for each in found]
        rest = f"where since < %s order by since limit {int(most)}"
        found = self._some(transaction, rest, as_time(before))
        return [each.given_up("not taken in time") for each in found]

    def remove(self, transaction: Transaction, keys: Sequence[str]) -> None:
        """Take changes out that are sent or given up."""
        marks = ", ".join(["%s"] * len(keys))
        transaction.execute(
            f"delete from {self._name} where key in ({marks}) returning null", tuple(keys)
        )

    def postpone(self, transaction: Transaction, key: str, until: float, why: str) -> None:
        """Note that an attempt has failed, and when the next one is due."""
        transaction.execute(
            f"update {self._name} set due = %s, tries = tries + 1, why = %s where key = %s"
            " returning null",
            (as_time(until), why, key),
        )

    def _some(
        self, transaction: Transaction, rest: str, *values: object
    ) -> Sequence[WaitingChange]:
        found = transaction.execute(
            f"select key, value, tries, why from {self._name} as waiting {rest}", values
        )
        return [WaitingChange(str(k), str(v), int(tries), str(why)) for k, v, tries, why in found]
