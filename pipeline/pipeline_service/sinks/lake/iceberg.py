"""Iceberg tables: the position of a partition is a property of the table.

A commit names the snapshot that it follows, and the catalog refuses it if the table has another one
by then. The position is compared on that same loaded table, so no process follows a position that
it has not seen. Even a commit without files adds a snapshot: a change of properties alone is never
refused.

The library itself would put a refused commit behind the new snapshot and try again, by the
property ``commit.retry.num-retries``, and files of a late process would be added. So each commit is
made on a copy of the metadata in which that number is 0; the table's own property is left to its
other writers.

Files do not have the columns of ``partition_by``. Readers take those from the partition of the
file, as the format has it for columns that a file lacks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from functools import cached_property
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
    NotInstalledError,
    TableAlreadyExistsError,
)
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import (
    _pyarrow_to_schema_without_ids,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table, TableProperties
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from crawlstream.errors import ConfigError
from crawlstream.store.store import Store, StoreUnavailable
from crawlstream.wire import jsontext
from pipeline_service.formats.columns import Column
from pipeline_service.formats.parquet import dataset_of, footer_of, table_schema_of
from pipeline_service.sinks.lake.synced_io import SyncedFileIO
from pipeline_service.sinks.lake.table import LakeCommit, LakeFile, LakePosition
from pipeline_service.spec.lake import IcebergSpec

_ATTEMPTS = 20
"""Maximum commits of other writers that one call follows."""
_FORMAT = 2
"""Version of the format of new tables, and the latest that this sink knows."""
_UNUSABLE = (ArgumentError, ImportError, NoSuchPropertyException, NotInstalledError, ValueError)
"""Errors of the library about properties of a catalog."""
_EPOCH = date(1970, 1, 1)
_PROPERTIES = {
    "format-version": str(_FORMAT),
    # Each commit writes the metadata as a whole.
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    # Else the list of manifests, which each commit writes, has an entry for each commit.
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
}


class IcebergLake:
    """An Iceberg table."""

    def __init__(self, spec: IcebergSpec, *, columns: Sequence[Column]) -> None:
        """``columns`` are those of its files, which do not have those of ``partition_by``."""
        self._store = Store.at(spec.url)
        self._spec = spec
        self._columns = columns
        self.place = f"Iceberg table {spec.table} of the catalog {spec.catalog}"
        self._turn = threading.Lock()

    @property
    def files(self) -> Store:
        """The folder in which its files are put before they are committed."""
        return self._store

    def open(self) -> None:
        """Make the table where there is none, and add columns if that is wanted. ConfigError."""
        with self._turn, self._asked("open"):
            table = self._load() or self._make()
            if self._lacking(table):
                with table.update_schema() as change:
                    change.union_by_name(self._schema)

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
                self._check_partitions(table)
                with suppress(CommitFailedException):
                    self._add(table, commit)
                    return True
        raise StoreUnavailable(f"other writers of the {self.place} are first again and again")

    def dataset(self) -> Any:
        """Return the rows of the newest version as a dataset of Arrow; None: there is no table."""
        with self._turn, self._asked("read"):
            table = self._load()
            if table is None:
                return None
            tasks = list(table.scan().plan_files())
            if any(task.delete_files for task in tasks):
                raise ConfigError(
                    f"another program has deleted single rows of the {self.place}: rewrite its data"
                    " files, or read the table by a reader of Iceberg"
                )
            files = {task.file.file_path: _given(table, task.file) for task in tasks}
            schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
            return dataset_of(files, schema, self._store.filesystem)

    @cached_property
    def _catalog(self) -> Catalog:
        """Connect to the catalog. ConfigError."""
        kind = SyncedFileIO if self._store.is_local else FsspecFileIO
        io = f"{kind.__module__}.{kind.__name__}"
        properties = {PY_IO_IMPL: io, **self._spec.properties}
        try:
            return load_catalog(self._spec.catalog, **properties)
        except _UNUSABLE as error:
            name, why = self._spec.catalog, str(error).splitlines()[0]
            raise ConfigError(f"the catalog iceberg.{name} cannot be used: {why}") from error
        except SQLAlchemyError:
            # Perhaps another process has made the catalog's own tables.
            return load_catalog(self._spec.catalog, **properties)

    @cached_property
    def _schema(self) -> Schema:
        """The columns of a new table."""
        made = table_schema_of(self._columns, self._spec.partition_by)
        return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(made))

    def _load(self) -> Table | None:
        """Return the newest version; None if there is no table."""
        try:
            return self._loaded()
        except (NoSuchNamespaceError, NoSuchTableError):
            return None

    def _loaded(self) -> Table:
        return self._catalog.load_table(self._spec.table)

    def _make(self) -> Table:
        fields = [
            PartitionField(
                source_id=self._schema.find_field(name).field_id,
                field_id=PARTITION_FIELD_ID_START + number,
                transform=IdentityTransform(),
                name=name,
            )
            for number, name in enumerate(self._spec.partition_by)
        ]
        names = TableProperties.DEFAULT_NAME_MAPPING
        self._catalog.create_namespace_if_not_exists(self._spec.table.rpartition(".")[0])
        with suppress(TableAlreadyExistsError):  # Another process has made it.
            return self._catalog.create_table(
                self._spec.table,
                self._schema,
                location=self._store.url("").rstrip("/"),
                partition_spec=PartitionSpec(*fields),
                properties={**_PROPERTIES, names: self._schema.name_mapping.model_dump_json()},
            )
        return self._loaded()

    def _lacking(self, table: Table) -> Sequence[str]:
        """Return the columns that are to be added. ConfigError: the table is unsuitable."""
        self._check_place(table)
        self._check_partitions(table)
        there_are = {field.name: field for field in table.schema().fields}
        there = schema_to_pyarrow(table.schema(), include_field_ids=False)
        wanted = schema_to_pyarrow(self._schema, include_field_ids=False)
        for name, field in there_are.items():
            if name not in wanted.names and field.required:
                raise ConfigError(
                    f"the {self.place} needs a value of {name}, which no page has: make the column"
                    " optional, or name another url and table"
                )
        for name in wanted.names:
            if name in there_are and there.field(name).type != wanted.field(name).type:
                raise ConfigError(
                    f"the column {name} of the {self.place} has the type"
                    f" {there_are[name].field_type}, expected"
                    f" {self._schema.find_type(name)}: name another url and table"
                )
        lacking = [name for name in wanted.names if name not in there_are]
        if lacking and not self._spec.migrate:
            raise ConfigError(
                f"the {self.place} lacks the columns {', '.join(lacking)}: set migrate = true to"
                " add them, or name another url and table"
            )
        return lacking

    def _check_place(self, table: Table) -> None:
        here, there = (
            each.url("").rstrip("/") for each in (self._store, Store.at(table.location()))
        )
        if here != there:
            raise ConfigError(f'the {self.place} is in another folder: set url = "{there}"')
        if table.format_version > _FORMAT:
            raise ConfigError(
                f"the {self.place} has version {table.format_version} of the format, and this sink"
                f" writes only version {_FORMAT}: name another url and table"
            )
        if table.name_mapping() is None:
            raise ConfigError(
                f"the {self.place} has no property {TableProperties.DEFAULT_NAME_MAPPING}, without"
                " which the columns of added files are not found: name another url and table, which"
                " the pipeline makes itself"
            )

    def _check_partitions(self, table: Table) -> None:
        """Check that files can have a partition. ConfigError."""
        is_plain = all(
            isinstance(each.transform, IdentityTransform) for each in table.spec().fields
        )
        names = [field.name for field in table.spec().fields]
        if not is_plain:
            raise ConfigError(
                f"the {self.place} is partitioned by {table.spec()}, and this sink writes only"
                " whole values: name another url and table"
            )
        if sorted(names) != sorted(self._spec.partition_by):
            there = jsontext.dumps(names).decode()
            raise ConfigError(
                f"the {self.place} is partitioned by {there}: set partition_by = {there}, or name"
                " another url and table"
            )

    def _add(self, table: Table, commit: LakeCommit) -> None:
        properties = {**table.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
        table.metadata = table.metadata.model_copy(update={"properties": properties})
        name, about = _property(commit.name), jsontext.dumps(commit.about).decode()
        told = {name: commit.position.name, "crawlstream": about}
        with table.transaction() as change:
            change.set_properties({name: commit.position.name})
            with change.update_snapshot(snapshot_properties=told).merge_append() as snapshot:
                for file in commit.files:
                    snapshot.append_data_file(self._entry(table, file))

    def _entry(self, table: Table, file: LakeFile) -> DataFile:
        """Return the entry of a file in a manifest."""
        schema = table.schema()
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=footer_of(file.path),
            stats_columns=compute_statistics_plan(schema, table.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self._store.url(file.name),
            file_format=FileFormat.PARQUET,
            partition=Record(*(_value(each.name, file.values) for each in table.spec().fields)),
            file_size_in_bytes=file.size,
            sort_order_id=None,
            spec_id=table.spec().spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )

    @contextmanager
    def _asked(self, what: str) -> Iterator[None]:
        """Raise any error of the library as StoreUnavailable, because the work must wait."""
        try:
            yield
        except (ConfigError, StoreUnavailable):
            raise
        except Exception as error:
            why = (str(error) or type(error).__name__).splitlines()[0]
            raise StoreUnavailable(f"cannot {what} the {self.place}: {why:.300}") from error


def _property(name: str) -> str:
    """Return the property of a position."""
    return name.replace("/", ".")


def _position(table: Table, name: str) -> LakePosition | None:
    value = table.properties.get(_property(name))
    return None if value is None else LakePosition.of_name(value)


def _given(table: Table, file: DataFile) -> Mapping[str, object]:
    """Return the values of columns that all rows of a file have."""
    fields = table.specs()[file.spec_id].fields
    return {
        field.name: file.partition[number]
        for number, field in enumerate(fields)
        if isinstance(field.transform, IdentityTransform)
    }


def _value(name: str, values: Mapping[str, str]) -> object:
    """Return the value of a partition as a manifest has it."""
    return (date.fromisoformat(values[name]) - _EPOCH).days if name == "date" else values[name]
