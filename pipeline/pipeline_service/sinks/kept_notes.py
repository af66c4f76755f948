"""Notes that sinks keep with the pages: in a folder of files, next to a table, among rows."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from crawlstream.plugins.sinks import RowStore, SinkUnavailable
from crawlstream.store.store import Store
from pipeline_service.records.account import Account
from pipeline_service.sinks.files.claims import ClaimChain, topic_name
from pipeline_service.sinks.lake.segment_notes import LakeNotes
from pipeline_service.sinks.lake.table import LakeTable, position_name
from pipeline_service.sinks.sink import SinkPosition
from pipeline_service.sinks.steps import standing_of

_LOG = "_log"
_PATIENCE_S = 1.0


class KeptInFiles:
    """In the folder ``_log`` of a pipeline's edition."""

    def __init__(self, store: Store) -> None:
        self.place = store.url("")
        self._store = store

    def standings(self, topic_id: str, numbers: Iterable[int]) -> Mapping[int, SinkPosition]:
        """Return how far partitions have come."""
        ends = {number: ClaimChain(self._store, topic_id, number).end() for number in numbers}
        return {number: SinkPosition(end.position, end.account) for number, end in ends.items()}

    def get(self, name: str) -> bytes | None:
        """A small text by its name."""
        return self._store.get(f"{_LOG}/{name}")

    def put(self, name: str, value: bytes) -> None:
        """Keep a small text."""
        self._store.put(f"{_LOG}/{name}", value)

    def names(self, folder: str) -> Sequence[str]:
        """Return the names of all notes below a folder."""
        return [name[len(_LOG) + 1 :] for name in self._store.list(f"{_LOG}/{folder}")]

    def close(self) -> None:
        """Nothing is held."""


class KeptInLake(KeptInFiles):
    """In a folder next to a table, which has the positions."""

    def __init__(self, store: Store, table: LakeTable[Any], owner: str) -> None:
        super().__init__(store)
        self.place = table.place
        self._table = table
        self._owner = owner

    def standings(self, topic_id: str, numbers: Iterable[int]) -> Mapping[int, SinkPosition]:
        """Return how far partitions have come."""
        return {number: self._standing(topic_id, number) for number in numbers}

    def _standing(self, topic_id: str, number: int) -> SinkPosition:
        notes = LakeNotes(self._store, topic_id, number)
        position = self._table.position(position_name(self._owner, notes.name))
        if position is None:
            return SinkPosition(notes.origin(), Account())
        return SinkPosition(position.next, notes.account(position))


class KeptInRows:
    """In the notes of a store of rows, by a connection of its own; for several threads."""

    def __init__(self, store: RowStore, place: str) -> None:
        self.place = place
        self._store = store
        self._turn = threading.Lock()
        self._is_open = False

    def standings(self, topic_id: str, numbers: Iterable[int]) -> Mapping[int, SinkPosition]:
        """Return how far partitions have come."""
        notes = self._read(f"{topic_name(topic_id)}-")
        places = {number: f"{topic_name(topic_id)}-{number:05}" for number in numbers}
        return {number: standing_of(notes, place) for number, place in places.items()}

    def get(self, name: str) -> bytes | None:
        """A small text by its name."""
        text = self._read(name).get(name)
        return None if text is None else text.encode()

    def put(self, name: str, value: bytes) -> None:
        """Keep a small text."""
        with self._opened():
            self._store.keep({name: value.decode()})

    def names(self, folder: str) -> Sequence[str]:
        """Return the names of all notes below a folder."""
        return sorted(self._read(f"{folder}/"))

    def close(self) -> None:
        """Close the store, also while a caller waits for its answer in vain."""
        if not self._turn.acquire(timeout=_PATIENCE_S):
            self._store.interrupt()
            self._turn.acquire()
        try:
            self._is_open = False
            self._store.close()
        finally:
            self._turn.release()

    def _read(self, prefix: str) -> Mapping[str, str]:
        with self._opened():
            return self._store.read(prefix)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Open the store for the length of a block; opened again after an error."""
        with self._turn:
            if not self._is_open:
                self._store.open()
                self._is_open = True
            try:
                yield
            except SinkUnavailable:
                self._is_open = False
                raise
