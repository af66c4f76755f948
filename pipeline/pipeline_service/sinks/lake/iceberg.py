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

from collections.abc import Mapping, Sequence
from contextlib import suppress
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
from crawlstream.store.store import Store
from crawlstream.wire import jsontext
from pipeline_service.formats.columns import Column
from pipeline_service.formats.parquet import dataset_of, footer_of, table_schema_of
from pipeline_service.sinks.lake.synced_io import SyncedFileIO
from pipeline_service.sinks.lake.table import (
    LakeColumn,
    LakeCommit,
    LakeFile,
    LakePosition,
    LakeTable,
)
from pipeline_service.spec.lake import IcebergSpec

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


class IcebergLake(LakeTable[Table]):
    """An Iceberg table."""

    elsewhere = "name another url and table"
    missing = (NoSuchNamespaceError, NoSuchTableError)
    refused = CommitFailedException

    def __init__(self, spec: IcebergSpec, *, columns: Sequence[Column]) -> None:
        """``columns`` are those of its files, which do not have those of ``partition_by``."""
        super().__init__(f"Iceberg table {spec.table} of the catalog {spec.catalog}", spec)
        self._iceberg = spec
        self._columns = columns

    @cached_property
    def _catalog(self) -> Catalog:
        """Connect to the catalog. ConfigError."""
        kind = SyncedFileIO if self.files.is_local else FsspecFileIO
        io = f"{kind.__module__}.{kind.__name__}"
        properties = {PY_IO_IMPL: io, **self._iceberg.properties}
        try:
            return load_catalog(self._iceberg.catalog, **properties)
        except _UNUSABLE as error:
            name, why = self._iceberg.catalog, str(error).splitlines()[0]
            raise ConfigError(f"the catalog iceberg.{name} cannot be used: {why}") from error
        except SQLAlchemyError:
            # Perhaps another process has made the catalog's own tables.
            return load_catalog(self._iceberg.catalog, **properties)

    @cached_property
    def _schema(self) -> Schema:
        """The columns of a new table."""
        made = table_schema_of(self._columns, self._spec.partition_by)
        return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(made))

    def _loaded(self) -> Table:
        return self._catalog.load_table(self._iceberg.table)

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
        self._catalog.create_namespace_if_not_exists(self._iceberg.table.rpartition(".")[0])
        with suppress(TableAlreadyExistsError):  # Another process has made it.
            return self._catalog.create_table(
                self._iceberg.table,
                self._schema,
                location=self.files.url("").rstrip("/"),
                partition_spec=PartitionSpec(*fields),
                properties={**_PROPERTIES, names: self._schema.name_mapping.model_dump_json()},
            )
        return self._loaded()

    def _check(self, table: Table) -> None:
        here, there = (
            each.url("").rstrip("/") for each in (self.files, Store.at(table.location()))
        )
        if here != there:
            raise ConfigError(f'the {self.place} is in another folder: set url = "{there}"')
        if table.format_version > _FORMAT:
            raise ConfigError(
                f"the {self.place} has version {table.format_version} of the format, and this sink"
                f" writes only version {_FORMAT}: {self.elsewhere}"
            )
        if table.name_mapping() is None:
            raise ConfigError(
                f"the {self.place} has no property {TableProperties.DEFAULT_NAME_MAPPING}, without"
                f" which the columns of added files are not found: {self.elsewhere}, which the"
                " pipeline makes itself"
            )

    def _columns_of(self, table: Table | None) -> Mapping[str, LakeColumn]:
        schema = self._schema if table is None else table.schema()
        # Types of the library have the ids of their fields, which differ.
        plain = schema_to_pyarrow(schema, include_field_ids=False)
        return {
            each.name: LakeColumn(plain.field(each.name).type, str(each.field_type), each.required)
            for each in schema.fields
        }

    def _partitions_of(self, table: Table) -> Sequence[str]:
        fields = table.spec().fields
        if not all(isinstance(each.transform, IdentityTransform) for each in fields):
            raise ConfigError(
                f"the {self.place} is partitioned by {table.spec()}, and this sink writes only"
                f" whole values: {self.elsewhere}"
            )
        return [field.name for field in fields]

    def _extend(self, table: Table, names: Sequence[str]) -> None:
        with table.update_schema() as change:
            change.union_by_name(self._schema)

    def _position(self, table: Table, name: str) -> LakePosition | None:
        value = table.properties.get(_property(name))
        return None if value is None else LakePosition.of_name(value)

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
            file_path=self.files.url(file.name),
            file_format=FileFormat.PARQUET,
            partition=Record(*(_value(each.name, file.values) for each in table.spec().fields)),
            file_size_in_bytes=file.size,
            sort_order_id=None,
            spec_id=table.spec().spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )

    def _rows(self, table: Table) -> Any:
        tasks = list(table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise ConfigError(
                f"another program has deleted single rows of the {self.place}: rewrite its data"
                " files, or read the table by a reader of Iceberg"
            )
        files = {task.file.file_path: _given(table, task.file) for task in tasks}
        schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
        return dataset_of(files, schema, self.files.filesystem)


def _property(name: str) -> str:
    """Return the property of a position."""
    return name.replace("/", ".")


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
