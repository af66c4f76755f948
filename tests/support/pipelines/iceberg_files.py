"""The files of an Iceberg table, as its catalog, metadata and manifests have them.

Read without the library that writes them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import orjson
from pyarrow import parquet

_DELETED = 2


def metadata_of(catalog: Path, table: str) -> dict[str, Any] | None:
    """The newest metadata of a table in a catalog in SQLite; None: there is no table."""
    if not catalog.exists():
        return None
    with closing(sqlite3.connect(catalog)) as database:
        found = database.execute(
            "select metadata_location from iceberg_tables"
            " where table_namespace || '.' || table_name = ?",
            [table],
        ).fetchall()
    return orjson.loads(_path(found[0][0]).read_bytes()) if found else None


def live_entries(metadata: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """The entries of data files in the newest snapshot."""
    by_id = {each["snapshot-id"]: each for each in metadata.get("snapshots", [])}
    if (newest := by_id.get(metadata.get("current-snapshot-id"))) is None:
        return []
    manifests = [each["manifest_path"] for each in _records(newest["manifest-list"])]
    entries = [entry for manifest in manifests for entry in _records(manifest)]
    return [entry["data_file"] for entry in entries if entry["status"] != _DELETED]


def live_files(metadata: dict[str, Any]) -> Sequence[Path]:
    """The data files of the newest snapshot."""
    return [_path(each["file_path"]) for each in live_entries(metadata)]


def rows_of_iceberg(catalog: Path, table: str) -> Sequence[tuple[str, bytes]]:
    """Return id and body of each page: DuckDB and pyarrow agree about them."""
    metadata = metadata_of(catalog, table)
    files = [] if metadata is None else [str(path) for path in live_files(metadata)]
    if not files:
        return []
    with duckdb.connect() as database:
        relation = database.read_parquet(files, union_by_name=True)
        body = "body" if "body" in relation.columns else "null"
        counted = relation.select(f"id, {body}").fetchall()
    pages = [(str(name), content or b"") for name, content in counted]
    ids = [name for file in files for name in parquet.read_table(file, columns=["id"])["id"]]
    assert sorted(map(str, ids)) == sorted(name for name, _ in pages)
    return pages


def _records(url: str) -> list[dict[str, Any]]:
    with _path(url).open("rb") as file:
        return [each for each in fastavro.reader(file) if isinstance(each, dict)]


def _path(url: str) -> Path:
    return Path(url.removeprefix("file://"))
