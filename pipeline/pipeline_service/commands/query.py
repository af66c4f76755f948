"""``query``: SQL over the files of pipelines, by DuckDB."""

from __future__ import annotations

import argparse
import asyncio
import base64
import csv
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from itertools import islice
from typing import Any

from crawlstream.boot.settings import Settings
from crawlstream.errors import CrawlstreamError, MissingExtra
from crawlstream.wire import jsontext
from pipeline_service.commands.printing import complain, print_json, print_table
from pipeline_service.process import load_pipelines
from pipeline_service.sink_factory import open_store, place_of
from pipeline_service.sinks.lake.opening import open_table
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.files_spec import FilesSpec
from pipeline_service.spec.lake import LakeSpec

_READERS = {"parquet": "read_parquet", "jsonl": "read_json_auto"}
"""Functions of DuckDB, by the beginning of a format."""
_AT_ONCE = 1_000
"""Rows that are fetched from DuckDB at a time."""
_LONGEST_CELL = 200
_CONFIG = {
    # Whatever else DuckDB can do by itself: fetch extensions, use all memory, fill the folder.
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class Refused(CrawlstreamError):
    """The query cannot be answered."""


async def query(settings: Settings, options: argparse.Namespace) -> int:
    """Print the rows of a query. ConfigError, Refused."""
    try:
        duckdb = import_module("duckdb")
    except ImportError as error:
        raise MissingExtra("query", error.name, "query") from error
    pipelines = load_pipelines(settings, ())
    await asyncio.to_thread(_answer, duckdb, pipelines, options)
    return 0


def _answer(duckdb: Any, pipelines: Sequence[Pipeline], options: argparse.Namespace) -> None:
    """Run the query in a database of its own, which is in memory and in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="crawlstream-query-") as spool:
        limits = {"memory_limit": f"{options.memory_mb}MiB", "temp_directory": spool}
        with duckdb.connect(config={**_CONFIG, **limits}) as database:
            database.execute("set TimeZone = 'UTC'")
            tables: dict[str, str] = {}
            try:
                _check(duckdb, database, options.sql)
                for pipeline in pipelines:
                    name = pipeline.name.replace("-", "_")
                    tables[name] = _make_table(duckdb, database, pipeline, options.sql)
                found = database.execute(options.sql)
                _print([column[0] for column in found.description], _rows(found), options)
            except duckdb.OutOfMemoryException as error:
                raise Refused(
                    f"the query needs more than {options.memory_mb} MB: set --memory-mb"
                ) from error
            except duckdb.CatalogException as error:
                raise Refused(f"{_sentence(error)}; {_known(tables)}") from error
            except duckdb.Error as error:
                raise Refused(_sentence(error)) from error


def _check(duckdb: Any, database: Any, sql: str) -> None:
    """Raise Refused if it is more than a question."""
    kinds = [statement.type for statement in database.extract_statements(sql)]
    questions = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    if len(kinds) != 1 or kinds[0] not in questions:
        raise Refused("expected one SELECT: files of pipelines are only read")


def _make_table(duckdb: Any, database: Any, pipeline: Pipeline, sql: str) -> str:
    """Make a view of a pipeline's files if the query names it; return why not, or nothing."""
    name, sink = pipeline.name, pipeline.sink
    if not isinstance(sink, FilesSpec | LakeSpec):
        return f"no files, but {place_of(pipeline)}"
    reader = _READERS.get(sink.format.partition(".")[0])
    if reader is None:
        return f"{sink.format} files"
    names = {name, name.replace("-", "_")}
    if not any(each in sql.lower() for each in names):
        return ""
    if isinstance(sink, LakeSpec):
        return _register(database, pipeline, names)
    source = f"{reader}({_quoted(_pattern(database, pipeline))}, {_options(sink)})"
    try:
        for each in names:
            database.execute(f'create view if not exists "{each}" as from {source}')
    except duckdb.IOException as error:
        is_empty = "No files found" in str(error)
        return f"no files yet in {open_store(pipeline).url('')}" if is_empty else _sentence(error)
    return ""


def _register(database: Any, pipeline: Pipeline, names: Collection[str]) -> str:
    """Make a view of a table of a lake; return why not, or nothing. StoreUnavailable."""
    table = open_table(pipeline, None)
    dataset = table.dataset()
    if dataset is None:
        return f"no {table.place} yet"
    for each in names:
        database.register(each, dataset)
    return ""


def _pattern(database: Any, pipeline: Pipeline) -> str:
    """Return the pattern of a pipeline's files, which the database can read then."""
    assert isinstance(pipeline.sink, FilesSpec)
    store = open_store(pipeline)
    url = store.url(f"**/*.{pipeline.sink.format}")
    if store.is_local:
        return url.partition("://")[2]
    database.register_filesystem(store.filesystem)
    return url


def _options(sink: FilesSpec) -> str:
    """Return the options of a reader: columns by their names, and folders as columns."""
    kinds = {"edition": "bigint", **dict.fromkeys(sink.partition_by, "varchar")}
    if "date" in kinds:
        kinds["date"] = "date"
    types = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
    return f"union_by_name = true, hive_partitioning = true, hive_types = {{{types}}}"


def _known(tables: Mapping[str, str]) -> str:
    """Return which tables there are, and why a pipeline is none."""
    there = [name for name, reason in tables.items() if not reason]
    absent = [f"{name}: {reason}" for name, reason in tables.items() if reason]
    return f"tables: {', '.join(there) or 'none'}" + (f" ({'; '.join(absent)})" if absent else "")


def _sentence(error: Exception) -> str:
    """Return the first paragraph of an error of DuckDB, without its kind and its guesses."""
    said = re.sub(r"^[A-Z][\w ]+ Error: ", "", str(error).partition("\n\n")[0])
    return said.partition("\nDid you mean")[0].rstrip("!")


def _rows(found: Any) -> Iterator[Sequence[Any]]:
    while some := found.fetchmany(_AT_ONCE):
        yield from some


def _print(
    names: Sequence[str], rows: Iterator[Sequence[Any]], options: argparse.Namespace
) -> None:
    if options.json:
        for row in rows:
            print_json(dict(zip(names, map(_plain, row), strict=True)))
    elif options.csv:
        table = csv.writer(sys.stdout, lineterminator="\n")
        table.writerow(names)
        table.writerows([_text(value) for value in row] for row in rows)
    else:
        shown = [[_short(_text(value)) for value in row] for row in islice(rows, options.count)]
        print_table(names, shown)
        if next(rows, None) is not None:
            complain(f"only the first {options.count} rows are shown: -n, --csv or --json for more")


def _plain(value: Any) -> Any:
    """Return a value that JSON can have."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _text(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, dict | list):
        return jsontext.dumps(plain).decode()
    return "" if plain is None else str(plain)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"


def _quoted(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"
