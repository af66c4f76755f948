"""SQL over files that the sink has written: what is a table, how rows print, what is refused."""

from __future__ import annotations

import asyncio
import csv
import os
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from pipeline_service.__main__ import main
from pipeline_service.spec.config import read
from support.pipelines import writer

FORMATS = {"pages": "parquet", "as-lines": "jsonl.zst", "archive": "warc.gz", "empty": "parquet"}
TABLES = ("in-a-table", "no-table")
PARTS = '["date", "appid"]'
Ask = Callable[..., tuple[str, str]]
COUNT = "select count(*) as pages, count(distinct id) as ids from "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of three pipelines, and of one that has stored nothing yet."""
    folder = tmp_path_factory.mktemp("query")
    sinks = {
        name: f'kind = "files", path = "{folder}", format = "{which}", partition_by = {PARTS}'
        for name, which in FORMATS.items()
    }
    tables = [f"[pipeline.{name}]\nsink = {{{sink}}}\n" for name, sink in sinks.items()]
    tables.append(
        '[pipeline.rows]\nsink = {kind = "sql", url = "sqlite:///x.db", table = "rows"}\n'
    )
    for name in TABLES:
        sink = f'kind = "delta", url = "{folder}/{name}", partition_by = {PARTS}'
        tables.append(f"[pipeline.{name}]\nsink = {{{sink}}}\n")
    (folder / "pipelines.toml").write_text("".join(tables))
    for name in (*list(FORMATS)[:3], TABLES[0]):
        asked = read("".join(tables), {})[name]
        asyncio.run(writer.write(asked, folder / f"spool-{name}"))
    return folder


@pytest.fixture
def ask(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run the command in an empty folder, which stays empty; return what it prints."""
    monkeypatch.setenv("CRAWLSTREAM_PIPELINES", str(folder / "pipelines.toml"))
    here = folder / "here"
    here.mkdir(exist_ok=True)
    monkeypatch.chdir(here)

    def run(sql: str, *options: str, code: int = 0) -> tuple[str, str]:
        assert main(["query", *options, "--", sql]) == code
        assert not list(here.iterdir())
        said = capsys.readouterr()
        return said.out, said.err

    return run


def test_the_files_of_a_pipeline_are_a_table(ask: Ask) -> None:
    """Queries each page of the files once; folders are columns of their type."""
    for table in ("pages", "as_lines", '"as-lines"'):
        (row,) = map(orjson.loads, ask(COUNT + table, "--json")[0].splitlines())
        assert row == {"pages": writer.PAGES + 1, "ids": writer.PAGES + 1}
    sql = "select date, edition, typeof(appid) as kind, count(*) as pages from pages where"
    rows = ask(f"{sql} status_code = 200 group by all order by date", "--json")[0].splitlines()
    assert [orjson.loads(row) for row in rows] == [
        {"date": "2026-11-21", "edition": 1, "kind": "VARCHAR", "pages": 23},
        {"date": "2026-11-22", "edition": 1, "kind": "VARCHAR", "pages": 22},
    ]


def test_the_delta_table_of_a_pipeline_is_a_table(ask: Ask) -> None:
    """Queries the rows that the log of a Delta table names, and its partition columns."""
    sql = "select date, appid, count(*) as pages from in_a_table where timestamp < '2026-11-22'"
    (row,) = map(orjson.loads, ask(f"{sql} group by all", "--json")[0].splitlines())
    assert row == {"date": "2026-11-21", "appid": "app", "pages": 24}
    (row,) = map(orjson.loads, ask(COUNT + '"in-a-table"', "--json")[0].splitlines())
    assert row == {"pages": writer.PAGES + 1, "ids": writer.PAGES + 1}


def test_rows_are_printed_for_people_and_for_programs(ask: Ask) -> None:
    """A table ends after `-n` rows and reports that there are more; CSV and JSON have all rows."""
    sql = "select id, timestamp, body, links, 'NaN'::double as nan, null as nothing from pages"
    out, err = ask(sql, "-n", "2")
    assert len(out.splitlines()) == 3
    assert "only the first 2 rows are shown" in err
    rows = list(csv.DictReader(ask(sql, "--csv")[0].splitlines()))
    lines = [orjson.loads(line) for line in ask(sql, "--json")[0].splitlines()]
    assert len(rows) == len(lines) == writer.PAGES + 1
    assert rows[0]["body"] == lines[0]["body"] == "PHA+w6kgLyAicSI8L3A+"
    assert lines[0]["timestamp"].startswith("2026-11-2")
    assert lines[0]["timestamp"].endswith("Z")
    assert orjson.loads(rows[0]["links"]) == lines[0]["links"]
    assert lines[0]["nan"] is lines[0]["nothing"] is None


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("selec 1", 'syntax error at or near "selec"'),
        ("select nix from pages", 'column "nix" not found'),
        (
            "select * from shop",
            "empty, in_a_table, no_table (archive: warc.gz files; rows: no files, but rows of ",
        ),
        ("select * from empty", "empty: no files yet"),
        ("select * from no_table", "no_table: no Delta table"),
        ("select body::int from pages", "cast"),
        ("copy pages to 'x.csv'", "expected one SELECT"),
        ("install httpfs", "expected one SELECT"),
        ("select 1; select 2", "expected one SELECT"),
        ("", "expected one SELECT"),
        ("from 'https://127.0.0.1:9/x.parquet'", "requires the extension httpfs"),
        ("select list(range) from range(100000000)", "the query needs more than 256 MB"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_sentence(
    ask: Ask, sql: str, sentence: str
) -> None:
    """Refuses other statements in one sentence on one line, and writes nothing."""
    out, err = ask(sql, "--memory-mb", "256", code=1)
    assert not out
    assert sentence in err
    assert err.startswith("crawlstream: ")
    assert err.count("\n") == 1


def test_a_reader_that_ends_early_ends_the_command(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends without a stack trace if its reader ends early, as `head` does."""
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert not ask("from range(100000)", "--csv", code=141)[1]


def test_a_missing_duckdb_is_named_with_its_extra(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names the extra of a missing DuckDB, before any file is read."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "duckdb of the extra [query]" in ask("select 1", code=2)[1]
