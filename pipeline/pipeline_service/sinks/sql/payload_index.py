"""Index of the payloads that the finished WARC files of a pipeline hold.

It only saves space. A segment's decisions are kept with its claim, so a segment that is made again
does not depend on the index, and a lost index costs nothing but payloads that are stored again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import TypeVar

from crawlstream.errors import ConfigError
from crawlstream.plugins.sinks import SinkUnavailable
from pipeline_service.formats.columns import ColumnType
from pipeline_service.formats.payloads import PayloadRecord
from pipeline_service.sinks.sql.database import Database, Transaction
from pipeline_service.sinks.store_calls import StoreCalls
from pipeline_service.spec.files_spec import RevisitsSpec

TABLE = "crawlstream_payloads"
_OWN = "pipeline = %s and edition = %s"
_ROWS = 100
"""Rows of a statement."""

T = TypeVar("T")


class PayloadIndex:
    """Payloads of one edition of a pipeline, in a table of SQLite or PostgreSQL."""

    def __init__(self, database: Database, spec: RevisitsSpec, owner: tuple[str, int]) -> None:
        """``owner``: pipeline and edition."""
        self.is_by_run = spec.scope == "run"
        self._database = database
        self._spec = spec
        self._owner = owner
        self._calls = StoreCalls(database)
        self._is_open = False

    async def find(self, keys: Sequence[bytes], since: datetime) -> Mapping[bytes, PayloadRecord]:
        """Return the records that hold payloads, none older than the age before a time.

        SinkUnavailable.
        """
        if not keys:
            return {}
        oldest = _text(since - timedelta(seconds=self._spec.age))
        return await self._calls.call(partial(self._opened, partial(self._find, keys, oldest)))

    async def add(self, records: Mapping[bytes, PayloadRecord]) -> None:
        """Note records of finished files, and forget the oldest. SinkUnavailable."""
        if records:
            await self._calls.call(partial(self._opened, partial(self._add, records)))

    async def close(self) -> None:
        """Let go of the database."""
        await self._calls.call(self._close)

    def prove(self) -> None:
        """Check that the database can be used. ConfigError, SinkUnavailable."""
        try:
            self._open()
        finally:
            self._close()

    def _open(self) -> None:
        self._database.open()
        with self._database.transaction() as transaction:
            if not transaction.columns(TABLE):
                transaction.alone()
                self._make(transaction)
        self._is_open = True

    def _make(self, transaction: Transaction) -> None:
        kind = self._database.types[ColumnType.BYTES]
        transaction.execute(
            f"create table if not exists {TABLE} (pipeline text not null, edition integer not null,"
            f" key {kind} not null, url {kind} not null, date text not null,"
            " primary key (pipeline, edition, key))"
        )
        transaction.execute(
            f"create index if not exists {TABLE}_date on {TABLE} (pipeline, edition, date)"
        )

    def _find(self, keys: Sequence[bytes], oldest: str) -> Mapping[bytes, PayloadRecord]:
        with self._database.transaction() as transaction:
            found = [
                row
                for some in _batches(keys)
                for row in transaction.execute(
                    f"select key, url, date from {TABLE} where {_OWN} and date >= %s"
                    f" and key in ({', '.join(['%s'] * len(some))})",
                    (*self._owner, oldest, *some),
                )
            ]
        return {bytes(key): PayloadRecord(bytes(url).decode(), date) for key, url, date in found}

    def _add(self, records: Mapping[bytes, PayloadRecord]) -> None:
        with self._database.transaction() as transaction:
            # In one order: two writers of common keys never wait for each other.
            for some in _batches(sorted(records)):
                rows = [
                    (*self._owner, key, records[key].url.encode(), records[key].date)
                    for key in some
                ]
                transaction.execute(
                    f"insert into {TABLE} as t (pipeline, edition, key, url, date) values"
                    f" {', '.join(['(%s, %s, %s, %s, %s)'] * len(rows))}"
                    " on conflict (pipeline, edition, key) do update"
                    " set url = excluded.url, date = excluded.date where t.date < excluded.date",
                    [value for row in rows for value in row],
                )
            self._forget(transaction, max(record.date for record in records.values()))

    def _forget(self, transaction: Transaction, latest: str) -> None:
        """Remove records that are too old, and the oldest of too many.

        A crawler's clock that is ahead does not count.
        """
        latest = min(latest, _text(datetime.fromtimestamp(transaction.now(), UTC)))
        oldest = _text(datetime.fromisoformat(latest) - timedelta(seconds=self._spec.age))
        found = transaction.execute(
            f"select date from {TABLE} where {_OWN} order by date desc limit 1 offset %s",
            (*self._owner, self._spec.most),
        )
        transaction.execute(
            f"delete from {TABLE} where {_OWN} and date <= %s",
            (*self._owner, max([oldest, *(str(date) for (date,) in found)])),
        )

    def _opened(self, call: Callable[[], T]) -> T:
        try:
            if not self._is_open:
                self._open()
            return call()
        except SinkUnavailable:
            self._is_open = False
            raise
        except ConfigError as error:
            # It was right when the pipeline began: its disk may not be mounted.
            raise SinkUnavailable(f"the index of payloads: {error}") from error

    def _close(self) -> None:
        self._is_open = False
        self._database.close()


def _text(at: datetime) -> str:
    """Return a time as `PayloadRecord` has it: such texts sort by time."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _batches(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    rest = iter(keys)
    while some := list(islice(rest, _ROWS)):
        yield some
