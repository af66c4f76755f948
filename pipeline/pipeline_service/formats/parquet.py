"""Parquet: one row per page, with the columns of ``columns`` or others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import dataset, parquet
from pyarrow.fs import FSSpecHandler, PyFileSystem

from pipeline_service.formats.columns import COLUMNS, Column, ColumnType
from pipeline_service.formats.files import Crawl

ROWS = 5_000
"""Maximum rows of a row group, which is kept in memory."""
GROUP_BYTES = 32 * 1024 * 1024
"""Maximum bytes of the records of a row group."""
_SCHEMA_VERSION = "1"
_ZSTD_LEVEL = 3

_TEXT = pa.string()
_TYPES = {
    ColumnType.TEXT: _TEXT,
    ColumnType.WHOLE: pa.int64(),
    ColumnType.NUMBER: pa.float64(),
    ColumnType.FLAG: pa.bool_(),
    ColumnType.TIME: pa.timestamp("us", "UTC"),
    ColumnType.BYTES: pa.binary(),
    ColumnType.TEXTS: pa.list_(_TEXT),
    ColumnType.WHOLES: pa.list_(pa.int64()),
    ColumnType.HEADERS: pa.map_(_TEXT, pa.list_(_TEXT)),
    ColumnType.LINKS: pa.list_(pa.struct([("url", _TEXT), ("text", _TEXT)])),
    ColumnType.JSON: _TEXT,
}
_WORDS = ["appid", "crawlid", "spiderid", "mime", "encoding", "seed_url", "ip", "uuid"]
"""Columns with few different values."""


class Parquet:
    """Writer of a file of row groups."""

    def __init__(self, file: BinaryIO, _: Crawl, columns: Sequence[Column] = COLUMNS) -> None:
        self._columns = columns
        self._schema = schema_of(columns)
        self._writer: Any = parquet.ParquetWriter(
            file,
            self._schema,
            compression="zstd",
            compression_level=_ZSTD_LEVEL,
            use_dictionary=[name for name in _WORDS if name in self._schema.names],
        )
        self._rows: list[list[Any]] = []
        self._bytes = 0

    def write(self, value: bytes, row: Any) -> None:
        """Add a row."""
        self._rows.append([_cell(column.kind, column.take(row)) for column in self._columns])
        self._bytes += len(value)
        if len(self._rows) >= ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the last rows and the footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [
                pa.array(values, field.type)
                for values, field in zip(columns, self._schema, strict=True)
            ]
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._rows, self._bytes = [], 0


def footer_of(file: Path) -> Any:
    """Return the metadata of a file."""
    return parquet.read_metadata(file)


def dataset_of(files: Mapping[str, Mapping[str, Any]], schema: Any, filesystem: Any) -> Any:
    """Return files as a dataset of Arrow.

    ``files``: by their URL, the values of the columns that a file does not have. ``filesystem`` is
    fsspec's.
    """
    known, made = dataset.ParquetFileFormat(), PyFileSystem(FSSpecHandler(filesystem))
    fragments = []
    for url, values in files.items():
        given = dataset.scalar(True)  # noqa: FBT003  an expression
        for name, value in values.items():
            given &= dataset.field(name) == pa.scalar(value, schema.field(name).type)
        path = filesystem._strip_protocol(url)  # noqa: SLF001  has no other name
        fragments.append(known.make_fragment(path, made, partition_expression=given))
    return dataset.FileSystemDataset(fragments, schema, known, made)


def statistics_of(file: Path) -> Mapping[str, object]:
    """Return the number of rows of a file, and bounds of its integers and times.

    As a log of Delta has them: ``numRecords``, ``minValues`` and ``maxValues``.
    """
    whole, bounds = parquet.read_metadata(file), dict[str, tuple[Any, Any]]()
    for group in map(whole.row_group, range(whole.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            found, name = chunk.statistics, chunk.path_in_schema
            if found is not None and found.has_min_max and type(found.min) in (int, datetime):
                low, high = bounds.get(name, (found.min, found.max))
                bounds[name] = min(low, found.min), max(high, found.max)
    return {
        "numRecords": whole.num_rows,
        "minValues": {name: _bound(low) for name, (low, _) in bounds.items()},
        "maxValues": {name: _bound(high) for name, (_, high) in bounds.items()},
    }


def _bound(value: Any) -> object:
    return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(value, datetime) else value


def schema_of(columns: Sequence[Column]) -> Any:
    """Return Arrow's schema of a table, with versions of its values and of the columns of pages."""
    versions = {f"crawlstream.{each.name}": each.version for each in columns if each.version}
    if columns is COLUMNS:
        versions["crawlstream.schema"] = _SCHEMA_VERSION
    return pa.schema(
        [(each.name, _TYPES[each.kind]) for each in columns], metadata=versions or None
    )


def table_schema_of(columns: Sequence[Column], partition_by: Sequence[str]) -> Any:
    """Return Arrow's schema of a table; its files do not have the columns of ``partition_by``."""
    kept = [each for each in columns if each.name not in partition_by]
    made = [pa.field(name, pa.date32() if name == "date" else _TEXT) for name in partition_by]
    return pa.schema([*schema_of(kept), *made])


def _cell(kind: ColumnType, value: Any) -> Any:
    """Return a value in the form that pyarrow needs."""
    if kind is ColumnType.HEADERS:
        return list(value.items())
    if kind is ColumnType.LINKS:
        return [{"url": url, "text": text} for url, text in value]
    return value
