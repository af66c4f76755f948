"""Delta tables: positions are application transactions of their log.

Two of them belong to a partition: ``<name>`` has the next offset as its version, ``<name>/token``
the token. The log refuses a commit if another one with these applications has come since the table
was loaded, and moves it behind all other commits. It does not refuse a version that is there
already, so the position is compared on the same loaded table before each commit. Entries of the log
are created exclusively: in a local folder by a link, in S3 by ``If-None-Match``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction

from crawlstream.errors import ConfigError
from crawlstream.store.store import Store, StoreUnavailable
from crawlstream.wire import jsontext
from pipeline_service.formats.columns import Column
from pipeline_service.formats.parquet import schema_of, statistics_of
from pipeline_service.sinks.lake.table import LakeCommit, LakeFile, LakePosition

_ATTEMPTS = 20
"""Maximum commits of other writers that one call follows."""
_WRITER_VERSION = 2
"""Later versions have features of which a writer must know; these here are the harmless ones."""
_FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz"})
_FORBIDDEN = {
    "delta.setTransactionRetentionDuration": "it would forget how far pipelines are",
    "delta.columnMapping.mode": "its files would have other names of columns",
}
_LOG = "_delta_log"


class DeltaLake:
    """A Delta table."""

    def __init__(
        self,
        url: str,
        *,
        columns: Sequence[Column],
        partition_by: Sequence[str] = (),
        migrate: bool = False,
    ) -> None:
        """``columns`` are those of its files, which do not have those of ``partition_by``."""
        self._store = Store.at(url)
        self.place = f"Delta table {self._store.url('').rstrip('/')}"
        self._url = self._plain(self._store)
        self._columns = columns
        self._partition_by = list(partition_by)
        self._migrates = migrate
        self._table: DeltaTable | None = None
        """The newest version that was loaded; it is loaded whole after an error."""
        self._turn = threading.Lock()

    @property
    def files(self) -> Store:
        """The folder in which its files are put before they are committed."""
        return self._store

    def open(self) -> None:
        """Make the table where there is none, and add columns if that is wanted. ConfigError."""
        with self._turn, self._asked("open"):
            if self._load() is None:
                self._make()
            table = self._loaded()
            if lacking := self._lacking(table):
                table.alter.add_columns(list(lacking))

    def check(self) -> None:
        """Check that a table that is there can be written; leaves nothing. ConfigError."""
        with self._turn, self._asked("read"):
            if (table := self._load()) is not None:
                self._lacking(table)

    def position(self, name: str) -> LakePosition | None:
        """Return a position of the newest version; None: there is none, or no table."""
        with self._turn, self._asked("read"):
            table = self._load()
            return None if table is None else _position(table, name)

    def commit(self, commit: LakeCommit) -> bool:
        """Add files and move the position, if that is as expected; False: it is another one."""
        with self._turn, self._asked("commit to"):
            for _ in range(_ATTEMPTS):
                table = self._loaded()
                found = _position(table, commit.name)
                if found == commit.position:
                    return True
                if found != commit.expected:
                    return False
                with suppress(CommitFailedError):
                    _add(table, commit)
                    self._sync(table.version())
                    return True
        raise StoreUnavailable(f"other writers of the {self.place} are first again and again")

    def dataset(self) -> Any:
        """Return the rows of the newest version as a dataset of Arrow; None: there is no table."""
        with self._turn, self._asked("read"):
            table = self._load()
            return None if table is None else table.to_pyarrow_dataset()

    def _load(self) -> DeltaTable | None:
        """Return the newest version; None if there is no table."""
        try:
            return self._loaded()
        except TableNotFoundError:
            return None

    def _loaded(self) -> DeltaTable:
        table, self._table = self._table, None
        if table is None:
            table = DeltaTable(self._url, storage_options=_options())
        else:
            table.update_incremental()
        self._table = table
        return table

    def _make(self) -> None:
        try:
            DeltaTable.create(
                *(self._url, self._schema()),
                partition_by=self._partition_by,
                storage_options=_options(),
            )
        except DeltaError:
            # Perhaps another process has made it.
            self._loaded()

    def _schema(self) -> Schema:
        """Return the columns of a new table."""
        kept = [each for each in self._columns if each.name not in self._partition_by]
        made = [Field(name, PrimitiveType(_type_of(name))) for name in self._partition_by]
        return Schema([*Schema.from_arrow(schema_of(kept)).fields, *made])

    def _lacking(self, table: DeltaTable) -> Sequence[Field]:
        """Return the columns that are to be added. ConfigError: the table is unsuitable."""
        _check_protocol(table, self.place)
        metadata = table.metadata()
        if sorted(metadata.partition_columns) != sorted(self._partition_by):
            there = jsontext.dumps(metadata.partition_columns).decode()
            raise ConfigError(
                f"the {self.place} is partitioned by {there}: set partition_by = {there}, or name"
                " another url"
            )
        there_are = {field.name: field for field in table.schema().fields}
        wanted = {field.name: field for field in self._schema().fields}
        for name, field in there_are.items():
            if name not in wanted and not field.nullable:
                raise ConfigError(
                    f"the {self.place} needs a value of {name}, which no page has: make the column"
                    " nullable, or name another url"
                )
            if name in wanted and field.type != wanted[name].type:
                raise ConfigError(
                    f"the column {name} of the {self.place} has the type {field.type}, expected"
                    f" {wanted[name].type}: name another url"
                )
        lacking = [field for name, field in wanted.items() if name not in there_are]
        if lacking and not self._migrates:
            names = ", ".join(field.name for field in lacking)
            raise ConfigError(
                f"the {self.place} lacks the columns {names}: set migrate = true to add them, or"
                " name another url"
            )
        return lacking

    def _sync(self, before: int) -> None:
        """Sync the new entries of a local log to the disk, which the library leaves to it."""
        if not self._store.is_local:
            return
        newest = self._loaded().version()
        log = Path(self._url) / _LOG
        names = [f"{version:020}.json" for version in range(before + 1, newest + 1)]
        for path in (*(log / name for name in names), log):
            with suppress(FileNotFoundError):
                _flush(path)

    @contextmanager
    def _asked(self, what: str) -> Iterator[None]:
        """Raise any error of the library as StoreUnavailable, because the work must wait."""
        try:
            yield
        except (ConfigError, StoreUnavailable):
            raise
        except Exception as error:
            self._table = None
            why = f"{str(error) or type(error).__name__:.300}"
            raise StoreUnavailable(f"cannot {what} the {self.place}: {why}") from error

    @staticmethod
    def _plain(store: Store) -> str:
        """Return a folder as the library has it: a local path, or the URL of an object store."""
        url = store.url("").rstrip("/")
        return url.removeprefix("file://") if store.is_local else url


def _beside(name: str) -> str:
    """Return the application that has the token of a position."""
    return f"{name}/token"


def _position(table: DeltaTable, name: str) -> LakePosition | None:
    version, token = table.transaction_version(name), table.transaction_version(_beside(name))
    return None if version is None or token is None else LakePosition(version, token)


def _add(table: DeltaTable, commit: LakeCommit) -> None:
    position = commit.position
    table.create_write_transaction(
        [_action(file) for file in commit.files],
        "append",
        table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=CommitProperties(
            custom_metadata={"crawlstream": jsontext.dumps(commit.about).decode()},
            app_transactions=[
                Transaction(commit.name, position.next),
                Transaction(_beside(commit.name), position.token),
            ],
        ),
    )


def _action(file: LakeFile) -> AddAction:
    now_ms, statistics = (
        time.time_ns() // 1_000_000,
        jsontext.dumps(statistics_of(file.path)).decode(),
    )
    return AddAction(file.name, file.size, file.values, now_ms, data_change=True, stats=statistics)


def _check_protocol(table: DeltaTable, place: str) -> None:
    protocol, settings = table.protocol(), table.metadata().configuration
    unknown = set(protocol.writer_features or ()) - _FEATURES
    if protocol.min_writer_version > _WRITER_VERSION and protocol.writer_features is None:
        unknown = {f"version {protocol.min_writer_version} of the protocol"}
    if unknown:
        raise ConfigError(
            f"the {place} has features that this sink does not know: {', '.join(sorted(unknown))}:"
            " name another url"
        )
    for name, why in _FORBIDDEN.items():
        if settings.get(name, "none") != "none":
            raise ConfigError(f"the {place} has the property {name}: remove it, because {why}")


def _type_of(name: str) -> str:
    return "date" if name == "date" else "string"


def _options() -> dict[str, str] | None:
    """Return what the library does not take from the variables of AWS by itself."""
    endpoints = (os.environ.get(name, "") for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
    is_plain = next(filter(None, endpoints), "").startswith("http://")
    return {"allow_http": "true"} if is_plain else None


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
