"""Pipelines with stages, on a real Kafka: what functions make of pages is in the files, once."""

from __future__ import annotations

import io
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyarrow import parquet

from crawlstream.store.store import Store
from support.pipelines.cluster import PipelineCluster
from support.pipelines.results import page_id, record
from support.waiting import WaitUntil

TESTS = Path(__file__).parents[2]
CODE = '''
import os, time
from pipeline_service import Page

def product(page: Page):
    """The products of a page, and what hostile ones do to it."""
    if "crash" in page.text:
        os.abort()
    if "hang" in page.text:
        time.sleep(3600)
    if "raise" in page.text:
        raise LookupError("no product")
    for text in page.select.css("li::text").getall():
        yield {"name": text, "price": float(text.partition(" ")[2])}
'''
SCHEMA = {
    "type": "object",
    "required": ["name", "price"],
    "properties": {"name": {"type": "string"}, "price": {"type": "number", "minimum": 1}},
}
STAGES = """
timeout = "2s"
workers = 2
stage = [
    {use = "python:code:product"},
    {use = "clean"},
    {use = "validate", schema = "schema.json"},
]
"""


@pytest.fixture(autouse=True)
def code(cluster: PipelineCluster) -> None:
    """What the stages name, beside the file of the pipelines."""
    (cluster.home / "code.py").write_text(CODE)
    (cluster.home / "schema.json").write_bytes(orjson.dumps(SCHEMA))


def page(number: int, *items: str) -> bytes:
    """A page with these items."""
    return record(number, body="".join(f"<li>{item}</li>" for item in items).encode())


def rows(cluster: PipelineCluster, which: str) -> Iterator[dict[str, Any]]:
    """All rows of all files."""
    store = Store.at(str(cluster.out / "archive" / "edition=1"))
    for name in store.list():
        if name.endswith(f".{which}") and not name.startswith("_log"):
            content = store.get(name) or b""
            if which == "parquet":
                yield from parquet.read_table(io.BytesIO(content)).to_pylist()
            else:
                yield from map(orjson.loads, content.splitlines())


def keys(cluster: PipelineCluster, which: str) -> Counter[tuple[str, int]]:
    """How often each item is in the files."""
    return Counter((row["id"], row["n"]) for row in rows(cluster, which))


@pytest.mark.parametrize("which", ["jsonl", "parquet"])
async def test_items_are_stored_once_and_hostile_pages_are_undelivered(
    cluster: PipelineCluster, wait_until: WaitUntil, which: str
) -> None:
    """Whatever a page does to its worker, its neighbours are stored and the account closes."""
    cluster.describe(which=which, more=STAGES, sink="max_records = 50")
    cluster.feed(page(n, f"Lamp{n} 5", f"Cheap{n} 0") for n in range(60))
    cluster.feed(page(n, "nothing here hang") for n in (100,))
    cluster.feed([page(101, "crash"), page(102, "raise"), page(103), page(3, "Again 9")])
    expected = Counter((page_id(n), item) for n in range(60) for item in range(2))
    process = cluster.process()
    with process.running():
        await wait_until(lambda: keys(cluster, which) == expected)
        await wait_until(lambda: len(cluster.records(cluster.topics.undelivered)) >= 3)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    assert keys(cluster, which) == expected
    assert {row["name"] for row in rows(cluster, which)} == {
        f"{word}{n} {price}" for n in range(60) for word, price in (("Lamp", 5), ("Cheap", 0))
    }
    marked = {row["name"] for row in rows(cluster, which) if row.get("_errors")}
    assert marked == {f"Cheap{n} 0" for n in range(60)}
    undelivered = {each["id"]: each for each in cluster.records(cluster.topics.undelivered)}
    assert {name: each["reason"] for name, each in undelivered.items()} == {
        page_id(100): "stage_timeout",
        page_id(101): "stage_killed",
        page_id(102): "stage_failed",
    }
    assert undelivered[page_id(102)]["stage"] == "product"
    (listed,) = map(orjson.loads, cluster.command("list", "--json").stdout.splitlines())
    assert listed["filtered"] == {"product": 1}
    assert (listed["delivered"], listed["repeats"], listed["closed"]) == (60, 1, True)


async def test_stages_that_were_corrected_get_a_second_chance(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """`check` and `preview` tell what they make; `replay` stores what they can make by now."""
    cluster.describe(which="jsonl", more=STAGES)
    cluster.feed([page(1, "Lamp 5", "Desk 7"), page(2, "raise 3")])
    checked = cluster.command("check")
    assert "stages, run by 2 worker processes: product, clean, validate" in checked.stdout
    shown = cluster.command("preview", "archive").stdout.splitlines()
    items = [orjson.loads(line) for line in shown if line.startswith("{")]
    assert [(row["n"], row["name"], row["price"]) for row in items] == [
        (0, "Lamp 5", 5.0),
        (1, "Desk 7", 7.0),
    ]
    assert any("stage_failed: product: LookupError: no product (" in line for line in shown)
    with (process := cluster.process()).running():
        await wait_until(lambda: len(keys(cluster, "jsonl")) == 2)
        await wait_until(lambda: cluster.records(cluster.topics.undelivered))
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    replay = ("undelivered", "replay", "archive", "--all")
    assert cluster.command(*replay).returncode == 1
    (cluster.home / "code.py").write_text(CODE.replace("raise LookupError", "pass  # "))
    for _ in range(2):
        done = cluster.command(*replay)
        assert done.returncode == 0, done.stdout + done.stderr
    assert Counter(row["name"] for row in rows(cluster, "jsonl")) == {
        "Lamp 5": 1,
        "Desk 7": 1,
        "raise 3": 1,
    }


async def test_a_pipeline_whose_stages_refuse_everything_waits(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """The fault is not the records': nothing more is read until an operator has looked."""
    cluster.describe(more=f"stop_after_undelivered = 20\n{STAGES}")
    cluster.feed(page(n, "raise") for n in range(30))
    with (process := cluster.process()).running():
        await wait_until(lambda: '"event":"broken"' in process.logged())
        assert "20 records in a row are undelivered (stage_failed)" in process.logged()
        assert not list(rows(cluster, "jsonl"))
        process.signal(signal.SIGTERM)
        assert process.wait() == 0


async def test_stages_that_cannot_be_loaded_end_the_start(cluster: PipelineCluster) -> None:
    """With a sentence, and no stack trace."""
    cluster.describe(more='stage = [{use = "python:nowhere:f"}]')
    for verb in ("check", "run"):
        done = cluster.command(verb)
        assert done.returncode == 2
        assert "pipeline.archive: stage f: nowhere:f cannot be imported" in done.stderr
        assert "Traceback" not in done.stderr
