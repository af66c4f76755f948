"""Interface of custom sinks: a store of rows that keeps notes in the same transaction.

A pipeline gives it rows, and notes of its position; the pipeline does everything else (reading,
repeats, the account, second chances). A package declares the function that makes the store as an
entry point of the group ``crawlstream.sinks``; its name is the `kind` in the file of the pipelines.
``docs/sinks.md`` shows one, and :mod:`pipeline_service.contract` tests it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from crawlstream.errors import ConfigError, CrawlstreamError, Unavailable

__all__ = [
    "Change",
    "ConfigError",
    "IdempotentStore",
    "Row",
    "RowStore",
    "RowsRefused",
    "SinkSpec",
    "SinkUnavailable",
]

Notes = Mapping[str, str | None]
"""Texts and their names; None: the note is to be removed."""
Settle = Callable[[Collection[str]], Notes]
"""Keys that the store had already -> the notes to be written with the rows."""


@dataclass(frozen=True, slots=True)
class Row:
    """A page, or an item that was made of one."""

    key: str
    """No two rows of a pipeline have the same: a page's id, or ``id:n`` of its n-th item."""
    offset: int
    """Offset of its record in the source."""
    fields: Mapping[str, object]
    """By column: text, int, float, bool, bytes, aware datetime, list, mapping or None."""
    value: bytes = b""
    """The row as UTF-8 JSON, for a store without columns."""


@dataclass(frozen=True, slots=True)
class Change:
    """A write that takes effect as a whole, or not at all."""

    name: str
    """The note that says whose turn it is."""
    expected: str | None
    """Its text; None: there is no such note yet. Another text: nothing is to be written."""
    rows: Sequence[Row]
    """In the order of the source; no two have one key."""
    settle: Settle
    """Called once the rows are known to fit; what it answers is written with them. If it raises,
    nothing is to be left of the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSpec:
    """Description of a store."""

    pipeline: str
    edition: int
    """Number of its edition; a new edition has rows and notes of its own."""
    options: Mapping[str, Any]
    """Options of its table in the file of the pipelines, without ``kind``; variables are filled
    in."""
    columns: Mapping[str, str]
    """Type of each field of its rows, in words."""


class SinkUnavailable(Unavailable):
    """The store does not do what it is asked for now; the pipeline waits and tries again."""


class RowsRefused(CrawlstreamError):
    """The store will never take some of the rows; none was written.

    ``keys`` are those of the rows, empty where the store does not know which: they are found by
    trial then. The message says why; a mapping of the keys says it of each row.
    """

    def __init__(self, message: str, keys: Collection[str] = ()) -> None:
        super().__init__(message)
        self.keys = keys


class RowStore(Protocol):
    """Where the rows of one edition of a pipeline are; calls block, one at a time.

    A process has one of them to write, and another one to look.
    """

    knows_keys: bool
    """True if it reports keys that it has already; if not, the pipeline remembers recent ones."""

    def open(self) -> None:
        """Have all that is needed, tables included; called again after an error.

        SinkUnavailable, or ConfigError for what only an operator can mend.
        """

    def prove(self) -> None:
        """Show that ``open`` would do, and leave nothing behind; errors as there."""

    def close(self) -> None:
        """Let go of it."""

    def interrupt(self) -> None:
        """Make the call in progress fail: it has taken too long. Called from another thread."""

    def take_over(self, name: str) -> None:
        """Shut out earlier writers of the note ``name``, if a note does not act as a lock here."""

    def read(self, prefix: str) -> Mapping[str, str]:
        """All notes whose names begin so. SinkUnavailable."""

    def keep(self, notes: Notes) -> None:
        """Write notes for which no other process is responsible. SinkUnavailable."""

    def write(self, change: Change) -> bool:
        """Write rows and notes in one transaction; False if another process has written before.

        SinkUnavailable: it may have been written all the same. RowsRefused: nothing was written.
        """


@runtime_checkable
class IdempotentStore(Protocol):
    """Where rows and texts are kept that has no transactions; calls block, one at a time.

    A row that is written again replaces itself. Pipelines make a ``RowStore`` of it: rows are
    written before the note that they are there.
    """

    def open(self) -> None:
        """Have all that is needed; errors, and called again, as of a ``RowStore``."""

    def prove(self) -> None:
        """Show that ``open`` would do, and leave nothing behind; errors as there."""

    def close(self) -> None:
        """Let go of it."""

    def interrupt(self) -> None:
        """Make the call in progress fail: it has taken too long. Called from another thread."""

    def put(self, rows: Sequence[Row]) -> None:
        """Write rows durably, each in place of the one with its key.

        SinkUnavailable: some may be written. RowsRefused: those that it names are not.
        """

    def read(self, prefix: str) -> Mapping[str, str]:
        """All texts whose names begin so, as they are now. SinkUnavailable."""

    def swap(self, name: str, expected: str | None, text: str | None) -> bool:
        """Write a text durably in place of the expected one; None: there is, or will be, none.

        False, and nothing is written, if another text is there: of two that expect the same, one
        succeeds. SinkUnavailable: it may have been written all the same.
        """


MakeStore = Callable[[SinkSpec], RowStore | IdempotentStore]
"""Type of the entry point. ConfigError: it does not accept the options."""
