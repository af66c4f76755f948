"""The guide to tables of lakes, followed from first line to last; tables that do not fit."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import orjson

from crawlstream_chaos.pipelines.delta_log import live_files
from support.documented import DOCS
from support.forks.program import run
from support.pipelines.cluster import PipelineCluster
from support.pipelines.results import page_id, record

GUIDE = (DOCS / "tables.md").read_text()
PAGES = 30


def blocks(language: str) -> list[str]:
    """The pieces of code of the guide."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def types(cluster: PipelineCluster, line: str) -> str:
    """Run a command of the guide; return what it prints."""
    words = shlex.split(line.removeprefix("./crawlstream "))
    done = run("crawlstream_cli", *words, env=cluster.env, folder=cluster.home, timeout_s=180)
    assert done.returncode == 0, done.stderr
    return done.stdout


def runs(cluster: PipelineCluster, code: str) -> str:
    """Run Python of the guide in the reader's folder."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cluster.home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_guide_to_tables(cluster: PipelineCluster) -> None:
    """A reader has each page once, before and after a compaction, while the pipeline goes on."""
    (file, _), (read, tidy, *_) = blocks("toml"), blocks("python")
    cluster.file.write_text(file)
    installs, *lines = (line for text in blocks("sh")[:2] for line in text.splitlines())
    assert installs.startswith("./crawlstream install delta")
    cluster.feed([*(record(n) for n in range(PAGES)), record(3)])
    checks, stores, asks, reports = lines
    place = f"Delta table file://{cluster.home}/lake/pages"
    assert f"lake: {place}" in types(cluster, checks)
    assert not (cluster.home / "lake" / "pages" / "_delta_log").exists()
    types(cluster, stores)
    assert re.search(rf"2026-11-21 +200 +{PAGES}\b", types(cluster, asks))
    assert re.search(rf"\b{PAGES + 1} +{PAGES} +1\b", types(cluster, reports))
    cluster.feed(record(n) for n in (*range(PAGES, PAGES + 5), 1))
    types(cluster, stores)
    assert runs(cluster, read).startswith(f"{PAGES + 5} pages in version ")
    before = len(live_files(cluster.home / "lake" / "pages"))
    runs(cluster, tidy)
    assert len(live_files(cluster.home / "lake" / "pages")) < before
    cluster.feed([record(2), record(PAGES + 5)])
    types(cluster, stores)
    ids = "select id from lake where body is not null order by id"
    told = types(cluster, f'./crawlstream query "{ids}" --json').splitlines()
    there = [orjson.loads(line)["id"] for line in told]
    assert there == sorted(page_id(n) for n in range(PAGES + 6))


def test_the_guide_to_iceberg_tables(cluster: PipelineCluster) -> None:
    """A reader has each page once, and snapshots expire, while the pipeline goes on."""
    (_, file), (*_, read, tidy) = blocks("toml"), blocks("python")
    cluster.file.write_text(file)
    installs, *lines = (line for text in blocks("sh")[2:] for line in text.splitlines())
    assert installs.startswith("./crawlstream install iceberg")
    cluster.feed([*(record(n) for n in range(PAGES)), record(3)])
    checks, stores, asks = lines
    assert "ice: Iceberg table web.pages of the catalog local" in types(cluster, checks)
    types(cluster, stores)
    assert re.search(rf"2026-11-21 +200 +{PAGES}\b", types(cluster, asks))
    runs(cluster, tidy)
    cluster.feed([record(2), record(PAGES)])
    types(cluster, stores)
    assert runs(cluster, read).startswith(f"{PAGES + 1} pages")


def test_a_table_that_does_not_fit_is_refused(cluster: PipelineCluster) -> None:
    """Refuses a table that does not fit in one sentence, and a second edition in one table."""
    sink = 'kind = "delta"\nurl = "lake"'
    cluster.describe_sink(sink)
    cluster.feed([record(1)])
    assert cluster.command("run", "--until-end").returncode == 0
    cluster.describe_sink(f'{sink}\npartition_by = ["appid"]')
    checked = cluster.command("check")
    assert (checked.returncode, len(checked.stderr.splitlines())) == (2, 1)
    assert 'is partitioned by ["date"]: set partition_by = ["date"]' in checked.stderr
    cluster.describe_sink(sink, "edition = 2")
    done = cluster.command("run", "--until-end")
    assert done.returncode == 1, done.stderr
    assert "has the pages of edition 1 of this pipeline: name another url" in done.stderr
    assert len(live_files(cluster.home / "lake")) == 1
