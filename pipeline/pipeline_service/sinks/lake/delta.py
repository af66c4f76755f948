"""Delta tables: positions are application transactions of their log.

Two of them belong to a partition: ``<name>`` has the next offset as its version, ``<name>/token``
the token. The log refuses a commit if another one with these applications has come since the table
was loaded, and moves it behind all other commits. It does not refuse a version that is there
already, so the position is compared on the same loaded table before each commit. Entries of the log
are created exclusively: in a local folder by a link, in S3 by ``If-None-Match``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction

from crawlstream.errors import ConfigError
from crawlstream.store.store import Store
from crawlstream.wire import jsontext
from pipeline_service.formats.columns import Column
from pipeline_service.formats.parquet import schema_of, statistics_of
from pipeline_service.sinks.lake.table import (
    LakeColumn,
    LakeCommit,
    LakeFile,
    LakePosition,
    LakeTable,
)
from pipeline_service.spec.lake import DeltaSpec

_WRITER_VERSION = 2
"""Later versions have features of which a writer must know; these here are the harmless ones."""
_FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz"})
_FORBIDDEN = {
    "delta.setTransactionRetentionDuration": "it would forget how far pipelines are",
    "delta.columnMapping.mode": "its files would have other names of columns",
}
_LOG = "_delta_log"


class DeltaLake(LakeTable[DeltaTable]):
    """A Delta table."""

    missing = (TableNotFoundError,)
    refused = CommitFailedError

    def __init__(self, spec: DeltaSpec, *, columns: Sequence[Column]) -> None:
        """``columns`` are those of its files, which do not have those of ``partition_by``."""
        url = Store.at(spec.url).url("").rstrip("/")
        super().__init__(f"Delta table {url}", spec)
        self._url = url.removeprefix("file://") if self.files.is_local else url
        """As the library has it: a local path, or the URL of an object store."""
        self._columns = columns
        self._table: DeltaTable | None = None
        """The newest version that was loaded; it is loaded whole after an error."""

    def _loaded(self) -> DeltaTable:
        table, self._table = self._table, None
        if table is None:
            table = DeltaTable(self._url, storage_options=_options())
        else:
            table.update_incremental()
        self._table = table
        return table

    def _forget(self) -> None:
        self._table = None

    def _make(self) -> DeltaTable:
        # Another process may make it at this moment.
        with suppress(DeltaError):
            DeltaTable.create(
                *(self._url, self._schema()),
                partition_by=list(self._spec.partition_by),
                storage_options=_options(),
            )
        return self._loaded()

    def _schema(self) -> Schema:
        """Return the columns of a new table."""
        by = self._spec.partition_by
        kept = [each for each in self._columns if each.name not in by]
        made = [Field(name, PrimitiveType(_type_of(name))) for name in by]
        return Schema([*Schema.from_arrow(schema_of(kept)).fields, *made])

    def _check(self, table: DeltaTable) -> None:
        protocol, settings = table.protocol(), table.metadata().configuration
        unknown = set(protocol.writer_features or ()) - _FEATURES
        if protocol.min_writer_version > _WRITER_VERSION and protocol.writer_features is None:
            unknown = {f"version {protocol.min_writer_version} of the protocol"}
        if unknown:
            raise ConfigError(
                f"the {self.place} has features that this sink does not know:"
                f" {', '.join(sorted(unknown))}: {self.elsewhere}"
            )
        for name, why in _FORBIDDEN.items():
            if settings.get(name, "none") != "none":
                raise ConfigError(
                    f"the {self.place} has the property {name}: remove it, because {why}"
                )

    def _columns_of(self, table: DeltaTable | None) -> Mapping[str, LakeColumn]:
        schema = self._schema() if table is None else table.schema()
        return {
            field.name: LakeColumn(field.type, str(field.type), not field.nullable)
            for field in schema.fields
        }

    def _partitions_of(self, table: DeltaTable) -> Sequence[str]:
        return table.metadata().partition_columns

    def _extend(self, table: DeltaTable, names: Sequence[str]) -> None:
        table.alter.add_columns([each for each in self._schema().fields if each.name in names])

    def _position(self, table: DeltaTable, name: str) -> LakePosition | None:
        found = (table.transaction_version(each) for each in (name, _beside(name)))
        version, token = found
        return None if version is None or token is None else LakePosition(version, token)

    def _add(self, table: DeltaTable, commit: LakeCommit) -> None:
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
        self._sync(table.version())

    def _sync(self, before: int) -> None:
        """Sync the new entries of a local log to the disk, which the library leaves to it."""
        if not self.files.is_local:
            return
        newest = self._loaded().version()
        log = Path(self._url) / _LOG
        names = [f"{version:020}.json" for version in range(before + 1, newest + 1)]
        for path in (*(log / name for name in names), log):
            with suppress(FileNotFoundError):
                _flush(path)

    def _rows(self, table: DeltaTable) -> Any:
        return table.to_pyarrow_dataset()


def _beside(name: str) -> str:
    """Return the application that has the token of a position."""
    return f"{name}/token"


def _action(file: LakeFile) -> AddAction:
    now_ms, statistics = (
        time.time_ns() // 1_000_000,
        jsontext.dumps(statistics_of(file.path)).decode(),
    )
    return AddAction(file.name, file.size, file.values, now_ms, data_change=True, stats=statistics)


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
