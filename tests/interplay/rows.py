"""The pipeline that stores what all stories bring: each page a row of SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from crawlstream_chaos.facts.facts import TopicRecord

COLUMNS = ("id", "appid", "crawlid", "spiderid", "run", "url", "attempt", "status_code")
"""Columns that have the values of the first delivery of the page."""


def describe(home: Path) -> Path:
    """Write the file of the pipelines, and return where it is."""
    file = home / "pipelines.toml"
    url = f"sqlite:///{database(home)}"
    file.write_text(f'[pipeline.rows]\nsink = {{kind = "sql", url = "{url}"}}\n')
    return file


def database(home: Path) -> Path:
    """Return the file of the database."""
    return home / "rows.db"


def rows_of(file: Path, appid: str) -> Sequence[Mapping[str, Any]]:
    """Read the rows of an application; none while there is no table."""
    query = f"select {', '.join(COLUMNS)} from pages where appid = ?"  # noqa: S608  names of this module
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            found = connection.execute(query, (appid,)).fetchall()
    except sqlite3.OperationalError:
        return ()
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]


def as_rows(delivered: Sequence[TopicRecord]) -> Mapping[str, Mapping[str, Any]]:
    """Return what must be stored, by id: of each page what its first delivery says."""
    found: dict[str, Mapping[str, Any]] = {}
    for record in sorted(delivered, key=lambda each: (each.partition, each.offset)):
        page = {name: record.value[name] for name in COLUMNS}
        found.setdefault(page["id"], page)
    return found


def differences(
    rows: Sequence[Mapping[str, Any]], wanted: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield what is wrong with the rows of a story."""
    ids = [row["id"] for row in rows]
    yield from (f"{page['url']} is no row" for name, page in wanted.items() if name not in ids)
    yield from (f"{name} is {ids.count(name)} rows" for name in set(ids) if ids.count(name) > 1)
    for row in rows:
        if row != wanted.get(row["id"]):
            yield f"the row {row} was delivered as {wanted.get(row['id'])}"
