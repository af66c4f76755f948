"""Rows and notes in a store without transactions: first the rows, then one text with the notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from crawlstream.boot.failpoints import failpoint
from crawlstream.plugins.sinks import (
    Change,
    IdempotentStore,
    Notes,
    Row,
    RowsRefused,
    RowStore,
    SinkUnavailable,
)
from crawlstream.wire import jsontext

STEP, _NOTE = "step/", "note/"
"""Beginnings of the names of texts: of steps, and of notes."""
_TRIES = 100


class IdempotentRows:
    """Store of rows that needs no transaction, on any :class:`IdempotentStore`.

    The notes of a change are one text, its *step*, which is written when the rows are there. A
    process that dies before leaves rows, which are written again under their keys. The next change
    writes the notes of the step under names of their own, and then replaces it: a step is small.
    """

    knows_keys = False

    def __init__(self, store: IdempotentStore) -> None:
        self._store = store
        self._texts: dict[str, str] = {}
        """Texts of the store, keyed by their names, as they were last read or written."""

    def open(self) -> None:
        """Open the store; its errors."""
        self._store.open()

    def prove(self) -> None:
        """Check the store; its errors."""
        self._store.prove()

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def interrupt(self) -> None:
        """Make the call in progress fail; from another thread."""
        self._store.interrupt()

    def take_over(self, name: str) -> None:
        """Nothing is locked: a step is only replaced by who has read it."""

    def read(self, prefix: str) -> Mapping[str, str]:
        """Return all notes whose names begin so. SinkUnavailable.

        Some belong to a step of another name (ids of pages): read that name before.
        """
        for begin in (STEP + prefix, _NOTE + prefix):
            others = {
                name: text for name, text in self._texts.items() if not name.startswith(begin)
            }
            self._texts = others | dict(self._store.read(begin))
        notes: dict[str, str | None] = {
            name.removeprefix(_NOTE): text
            for name, text in self._texts.items()
            if name.startswith(_NOTE)
        }
        for name, text in self._texts.items():
            notes |= _notes_in(text) if name.startswith(STEP) else {}
        return {
            name: text
            for name, text in notes.items()
            if text is not None and name.startswith(prefix)
        }

    def keep(self, notes: Notes) -> None:
        """Write notes for which no other process is responsible. SinkUnavailable."""
        for name, text in notes.items():
            for _ in range(_TRIES):
                current = self._current(_NOTE + name)
                if current == text or self._store.swap(_NOTE + name, current, text):
                    break
            else:
                raise SinkUnavailable(f"other processes changed the note {name} each time")

    def write(self, change: Change) -> bool:
        """Write rows, then notes; False, and no note, if another process has written before.

        SinkUnavailable: some or all may be written. RowsRefused: the other rows may be written.
        """
        notes, name = change.settle(()), STEP + change.name
        before = self._texts.get(name)
        last = _notes_in(before) if before else {}
        if last.pop(change.name, None) != change.expected or self._current(name) != before:
            return False
        if not all(self._swap(_NOTE + note, text) for note, text in last.items()):
            return False
        self._put(change.rows)
        failpoint("after_rows")
        step = jsontext.dumps(notes).decode()
        if not self._store.swap(name, before, step):
            return False
        self._texts[name] = step
        return True

    def _put(self, rows: Sequence[Row]) -> None:
        """Write rows; RowsRefused with the keys of all that are refused."""
        try:
            self._store.put(rows)
        except RowsRefused as refused:
            keys = refused.keys or [row.key for row in rows if self._is_refused(row)]
            raise RowsRefused(str(refused), keys) from refused

    def _is_refused(self, row: Row) -> bool:
        try:
            self._store.put([row])
        except RowsRefused:
            return True
        return False

    def _swap(self, name: str, text: str | None) -> bool:
        """Have a text in place of the one that is known here; False if it is another by now."""
        known = self._texts.get(name)
        if known != text and not self._store.swap(name, known, text):
            # An earlier attempt may have written it without an answer.
            return self._current(name) == text
        self._texts.pop(name, None)
        if text is not None:
            self._texts[name] = text
        return True

    def _current(self, name: str) -> str | None:
        return self._store.read(name).get(name)


def row_store(made: RowStore | IdempotentStore) -> RowStore:
    """Return a store of rows, whichever of the two an author has written."""
    if isinstance(made, IdempotentStore):
        return IdempotentRows(made)
    return made


def _notes_in(step: str) -> dict[str, str | None]:
    return cast("dict[str, str | None]", jsontext.loads(step.encode()))
