#!/usr/bin/env python3
"""Counts the pages that the pipelines of trial.pipelines.toml have stored, for docker/try.sh.

On its standard input are the results of a crawl. Exits with 0 only if every sink has each of these
pages, and no page twice.
"""

import json
import sqlite3
import sys
from collections import Counter
from pathlib import Path

from pyarrow import parquet

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "/results")
crawled = {json.loads(line)["id"] for line in sys.stdin}
tables = [parquet.ParquetFile(each).read(["id"]) for each in folder.glob("parquet/*/*/*.parquet")]
lines = [each.read_bytes().splitlines() for each in folder.glob("lines/*/*/*.jsonl")]
rows = sqlite3.connect(folder / "pages.db").execute("select id from pages").fetchall()
stored = {
    "parquet": Counter(page for table in tables for page in table["id"].to_pylist()),
    "lines": Counter(json.loads(line)["id"] for each in lines for line in each),
    "rows": Counter(page for (page,) in rows),
}
for sink, pages in stored.items():
    facts = f"lost {len(crawled - pages.keys())}, twice {pages.total() - len(pages)}"
    sys.stdout.write(f"{sink}: {pages.total()} pages, of this crawl {len(crawled)}, {facts}\n")
sys.exit(
    not crawled
    or any(crawled - pages.keys() or pages.total() > len(pages) for pages in stored.values())
)
