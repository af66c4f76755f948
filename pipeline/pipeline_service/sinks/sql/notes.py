"""The table of notes, of one edition of a pipeline, within transactions of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawlstream.plugins.sinks import Notes
from crawlstream.wire import jsontext
from pipeline_service.sinks.sql.database import Transaction, batches

TABLE = "crawlstream_notes"
_OWN = "pipeline = %s and edition = %s"


class Notebook:
    """Notes of one owner; every call is part of a transaction."""

    def __init__(self, pipeline: str, edition: int) -> None:
        self._owner = (pipeline, edition)

    def prepare(self, transaction: Transaction) -> None:
        """Have the table."""
        transaction.execute(
            f"create table if not exists {TABLE} (pipeline text not null,"
            " edition integer not null, name text not null, value text not null,"
            " primary key (pipeline, edition, name))"
        )

    def select(self, transaction: Transaction, text: str, *, of: str) -> Mapping[str, str]:
        """Return notes, keyed with their names, that meet a condition with one parameter."""
        found = transaction.execute(
            f"select name, value from {TABLE} where {_OWN} and {of}", (*self._owner, text)
        )
        return {str(name): str(value) for name, value in found}

    def has_other_edition(self, transaction: Transaction) -> bool:
        """Return whether another edition of the pipeline has stored something."""
        found = transaction.execute(
            f"select 1 from {TABLE} where pipeline = %s and edition <> %s and name like %s limit 1",
            (*self._owner, "%/position"),
        )
        return bool(list(found))

    def take_turn(self, transaction: Transaction, name: str, expected: str | None) -> bool:
        """Lock a note until the transaction ends. False: its text is not the expected one.

        ``expected`` None: there must not be one, and an empty one is made.
        """
        if expected is None:
            found = transaction.execute(
                f"insert into {TABLE} (pipeline, edition, name, value) values (%s, %s, %s, '')"
                " on conflict (pipeline, edition, name) do nothing returning null",
                (*self._owner, name),
            )
        else:
            found = transaction.execute(
                f"select value from {TABLE} where {_OWN} and name = %s{transaction.lock}",
                (*self._owner, name),
            )
        return [tuple(row) for row in found] == [(expected,)]

    def put(self, transaction: Transaction, notes: Notes) -> None:
        """Write notes; None removes one."""
        for name, value in notes.items():
            if value is None:
                transaction.execute(
                    f"delete from {TABLE} where {_OWN} and name = %s", (*self._owner, name)
                )
            else:
                transaction.execute(
                    f"insert into {TABLE} (pipeline, edition, name, value)"
                    " values (%s, %s, %s, %s) on conflict (pipeline, edition, name)"
                    " do update set value = excluded.value",
                    (*self._owner, name, value),
                )

    def get(self, transaction: Transaction, name: str) -> Mapping[str, Any]:
        """Return a note as an object of JSON; empty where there is none."""
        return _object(self.select(transaction, name, of="name = %s").get(name))

    def objects(
        self, transaction: Transaction, names: Sequence[str]
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return those of some notes that exist, as objects of JSON."""
        told: dict[str, Mapping[str, Any]] = {}
        for some in batches(names):
            found = transaction.execute(
                f"select name, value from {TABLE} where {_OWN}"
                f" and name in ({', '.join(['%s'] * len(some))})",
                (*self._owner, *some),
            )
            told |= {str(name): _object(str(value)) for name, value in found}
        return told

    def lock(self, transaction: Transaction, name: str) -> dict[str, Any]:
        """Return a note as an object of JSON, locked until the transaction ends."""
        found: Sequence[Sequence[Any]] = ()
        # Another transaction may remove it in between.
        while not found:
            transaction.execute(
                f"insert into {TABLE} (pipeline, edition, name, value) values (%s, %s, %s, '')"
                " on conflict (pipeline, edition, name) do nothing",
                (*self._owner, name),
            )
            found = transaction.execute(
                f"select value from {TABLE} where {_OWN} and name = %s{transaction.lock}",
                (*self._owner, name),
            )
        return _object(str(found[0][0]))

    def free_after(
        self, transaction: Transaction, name: str, *, prefix: str, most: int
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return the next notes with a prefix as objects of JSON, locked; leave out locked ones."""
        found = transaction.execute(
            f"select name, value from {TABLE} where {_OWN} and name > %s"
            f" and substr(name, 1, {len(prefix)}) = %s order by name limit {int(most)}"
            f"{transaction.lock_free}",
            (*self._owner, name, prefix),
        )
        return {str(name): _object(str(value)) for name, value in found}

    def put_object(self, transaction: Transaction, name: str, told: Mapping[str, Any]) -> None:
        """Write a note as an object of JSON."""
        self.put(transaction, {name: jsontext.dumps(told).decode()})


def _object(text: str | None) -> dict[str, Any]:
    told: Any = jsontext.loads(text.encode()) if text else {}
    return told if isinstance(told, dict) else {}
