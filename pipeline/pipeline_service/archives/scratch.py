"""Facts about all records of an archive, in a temporary database of SQLite on the disk."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from pipeline_service.archives.warc_file import WarcRecord
from pipeline_service.formats.payloads import PayloadRecord

_CACHE_KIB = 16 * 1024
_ROWS = 2_000
"""Rows that are kept in memory."""
_ADD_PAGE = "insert or ignore into pages values (?)"
_ADD_PAYLOAD = "insert or replace into payloads values (?, ?)"
_ADD_REVISIT = "insert into revisits values (?, ?, ?)"
_MISSING = """
    select at, case when payloads.place is null then 'is missing' else 'has another payload' end
    from revisits left join payloads on revisits.place = payloads.place
    where payloads.place is null or payloads.digest <> revisits.digest
"""


class Scratch:
    """Ids of pages, payloads, and references to them."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._payloads: list[tuple[bytes, bytes]] = []
        self._revisits: list[tuple[bytes, bytes, str]] = []

    def add_page(self, name: str) -> bool:
        """Note a page by the id of its record; False if it was there before."""
        return self._database.execute(_ADD_PAGE, (_short(name),)).rowcount == 1

    def add_payload(self, record: WarcRecord) -> None:
        """Note the payload of a response."""
        self._payloads.append((_place(record.place), _digest(record)))
        if len(self._payloads) >= _ROWS:
            self._flush()

    def add_revisit(self, record: WarcRecord, holder: PayloadRecord, at: str) -> None:
        """Note a reference; ``at`` says where it is."""
        self._revisits.append((_place(holder), _digest(record), at))
        if len(self._revisits) >= _ROWS:
            self._flush()

    def dangling(self) -> Iterator[tuple[str, str]]:
        """Yield where a reference is whose record is missing or another, and which of both."""
        self._flush()
        yield from self._database.execute(_MISSING)

    def _flush(self) -> None:
        self._database.executemany(_ADD_PAYLOAD, self._payloads)
        self._database.executemany(_ADD_REVISIT, self._revisits)
        self._payloads, self._revisits = [], []


@contextmanager
def scratch() -> Iterator[Scratch]:
    """Provide an empty one; its file has no name, and goes with the process."""
    with closing(sqlite3.connect("", isolation_level=None)) as database:
        for statement in _SCHEMA:
            database.execute(statement)
        yield Scratch(database)


_SCHEMA: Sequence[str] = (
    f"pragma cache_size = -{_CACHE_KIB}",
    "pragma journal_mode = off",
    "pragma synchronous = off",
    "create table pages (id blob primary key) without rowid",
    "create table payloads (place blob primary key, digest blob) without rowid",
    "create table revisits (place blob, digest blob, at text)",
    "begin",
)


def _place(record: PayloadRecord) -> bytes:
    return _short("\n".join(record))


def _digest(record: WarcRecord) -> bytes:
    return _short(record.get("warc-payload-digest"))


def _short(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
