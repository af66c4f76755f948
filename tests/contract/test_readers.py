"""Output of sinks, read by programs of others.

Only with CRAWLSTREAM_LONG=1: pip fetches DuckDB and FastWARC.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.pipelines import writer
from support.pipelines.results import PAGE, page_id
from support.pipelines.targets import Target

MakeTarget = Callable[..., Target]
IDS = sorted(page_id(number) for number in range(writer.PAGES))

DUCKDB = """
import duckdb, json, sys
print(json.dumps(duckdb.sql(
    f"select id, status_code, date, body from '{sys.argv[1]}/**/*.parquet' order by id"
).fetchall(), default=lambda value: value.decode() if isinstance(value, bytes) else str(value)))
"""
FASTWARC = """
import json, sys
from pathlib import Path
from fastwarc.warc import ArchiveIterator, WarcRecordType
found = []
for file in Path(sys.argv[1]).rglob("*.warc.gz"):
    with file.open("rb") as stream:
        for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
            assert record.verify_payload_digest()
            found.append([record.headers["WARC-Target-URI"], record.reader.read().decode()])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs of others."""
    folder = tmp_path_factory.mktemp("tools")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install")
    subprocess.run([*pip, "--target", str(folder), "duckdb", "fastwarc"], check=True, timeout=1200)
    return folder


def written(target: Target) -> str:
    """The folder of the target's files, when all is in them."""
    with target.start() as process:
        assert process.wait() == 0
    return str(target.home / "out")


def answer(code: str, folder: str, tools: Path) -> Any:
    """Report of a program on a folder, as JSON."""
    env = {**os.environ, "PYTHONPATH": str(tools)}
    done = subprocess.run(
        [sys.executable, "-c", code, folder], env=env, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def test_duckdb_reads_the_folder_as_it_is(make_target: MakeTarget, tools: Path) -> None:
    """Each page once; folders are columns, and what is hidden from readers stays so."""
    rows = answer(DUCKDB, written(make_target("file/parquet")), tools)
    assert [row[0] for row in rows] == IDS
    assert {row[1] for row in rows} == {200}
    assert {row[2] for row in rows} == {"2026-11-21", "2026-11-22"}
    assert {row[3] for row in rows} == {PAGE.body.decode()}


def test_fastwarc_reads_the_archive(make_target: MakeTarget, tools: Path) -> None:
    """Its digests are right, and its bodies those of the pages."""
    folder = written(make_target("file/warc.gz"))
    assert answer(FASTWARC, folder, tools) == [[PAGE.url, PAGE.body.decode()]] * writer.PAGES
    for file in Path(folder).rglob("*.warc.gz"):
        check = (sys.executable, "-m", "warcio.cli", "check", str(file))
        assert subprocess.run(check, check=False).returncode == 0


def test_psql_reads_the_table(make_target: MakeTarget) -> None:
    """Times and JSON are such to the database."""
    target = make_target("postgresql")
    with target.start() as process:
        assert process.wait() == 0
    statement = (
        "select id, extract(year from timestamp), response_headers->'X-Two'->>1"
        " from pages order by id"
    )
    done = subprocess.run(
        ["psql", "-qXAt", target.url, "-c", statement], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [f"{name}|2026|2" for name in IDS]
