"""Rows of an Iceberg table, as its catalog, metadata and manifests have them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
from pyarrow import parquet

from crawlstream_chaos.pipelines.iceberg_log import live_files, metadata_of


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
