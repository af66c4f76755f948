"""Parquet: one row a page, with the columns of :mod:`crawlstream.formats.columns`."""

from __future__ import annotations

from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import parquet

from crawlstream.formats.columns import COLUMNS, Kind
from crawlstream.formats.files import Crawl
from crawlstream.model.delivered import Delivered

ROWS = 5_000
"""Of a row group at most, and so in memory."""
GROUP_BYTES = 32 * 1024 * 1024
"""Bodies of a row group."""
_SCHEMA_VERSION = "1"
_ZSTD_LEVEL = 3

_TEXT = pa.string()
_TYPES = {
    Kind.TEXT: _TEXT,
    Kind.WHOLE: pa.int64(),
    Kind.NUMBER: pa.float64(),
    Kind.FLAG: pa.bool_(),
    Kind.TIME: pa.timestamp("us", "UTC"),
    Kind.BYTES: pa.binary(),
    Kind.TEXTS: pa.list_(_TEXT),
    Kind.HEADERS: pa.map_(_TEXT, pa.list_(_TEXT)),
    Kind.LINKS: pa.list_(pa.struct([("url", _TEXT), ("text", _TEXT)])),
    Kind.JSON: _TEXT,
}
SCHEMA = pa.schema(
    [(column.name, _TYPES[column.kind]) for column in COLUMNS],
    metadata={"crawlstream.schema": _SCHEMA_VERSION},
)
_WORDS = ["appid", "crawlid", "spiderid", "mime", "encoding", "seed_url", "ip", "uuid"]
"""Columns with few different values."""


class Parquet:
    """A file of row groups."""

    def __init__(self, file: BinaryIO, _: Crawl) -> None:
        self._writer: Any = parquet.ParquetWriter(
            file,
            SCHEMA,
            compression="zstd",
            compression_level=_ZSTD_LEVEL,
            use_dictionary=_WORDS,
        )
        self._rows: list[list[Any]] = []
        self._bytes = 0

    def write(self, _: bytes, page: Delivered) -> None:
        """Add a row."""
        self._rows.append([_cell(column.kind, column.take(page)) for column in COLUMNS])
        self._bytes += len(page.body)
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
                pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)
            ]
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA))
        self._rows, self._bytes = [], 0


def _cell(kind: Kind, value: Any) -> Any:
    """A value as pyarrow takes it."""
    if kind is Kind.HEADERS:
        return list(value.items())
    if kind is Kind.LINKS:
        return [{"url": url, "text": text} for url, text in value]
    return value
