"""Catalog, metadata and manifests of an Iceberg table, read without the library that writes them.

The catalog is a database of SQLite, the table is on a disk.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro

_DELETED = 2
_POSITION = "crawlstream."
_WAIT_S = 60.0
"""For a writer of the catalog that holds its lock."""


class IcebergLog:
    """The metadata of a table, as its reader uses it."""

    def __init__(self, catalog: Path, table: str) -> None:
        self._catalog = catalog
        self._table = table

    def files(self) -> Sequence[Path]:
        """Return the data files of the newest snapshot; one that is named twice is there twice."""
        metadata = metadata_of(self._catalog, self._table)
        return live_files(metadata) if metadata else []

    def positions(self) -> Mapping[str, tuple[int, int]]:
        """Return next offset and token by the name of a position."""
        metadata = metadata_of(self._catalog, self._table) or {}
        found = {
            name.replace(".", "/"): value.split("-")
            for name, value in metadata.get("properties", {}).items()
            if name.startswith(_POSITION)
        }
        return {name: (int(at), int(token, 16)) for name, (at, token) in found.items()}


def metadata_of(catalog: Path, table: str) -> dict[str, Any] | None:
    """Return the newest metadata of a table; None: there is no table."""
    if not catalog.exists():
        return None
    with closing(sqlite3.connect(catalog, timeout=_WAIT_S)) as database:
        if not database.execute(
            "select 1 from sqlite_master where name = 'iceberg_tables'"
        ).fetchall():
            return None
        found = database.execute(
            "select metadata_location from iceberg_tables"
            " where table_namespace || '.' || table_name = ?",
            [table],
        ).fetchall()
    return json.loads(_path(found[0][0]).read_bytes()) if found else None


def live_entries(metadata: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the entries of data files in the newest snapshot."""
    by_id = {each["snapshot-id"]: each for each in metadata.get("snapshots", [])}
    if (newest := by_id.get(metadata.get("current-snapshot-id"))) is None:
        return []
    manifests = [each["manifest_path"] for each in _records(newest["manifest-list"])]
    entries = [entry for manifest in manifests for entry in _records(manifest)]
    return [entry["data_file"] for entry in entries if entry["status"] != _DELETED]


def live_files(metadata: dict[str, Any]) -> Sequence[Path]:
    """Return the data files of the newest snapshot."""
    return [_path(each["file_path"]) for each in live_entries(metadata)]


def _records(url: str) -> list[dict[str, Any]]:
    with _path(url).open("rb") as file:
        return [each for each in fastavro.reader(file) if isinstance(each, dict)]


def _path(url: str) -> Path:
    return Path(url.removeprefix("file://"))
