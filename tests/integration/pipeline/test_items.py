"""Pipelines with stages, on a real Kafka: what functions make of pages is in the files, once."""

from __future__ import annotations

import io
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.request import urlopen

import orjson
import psutil
import pytest
from pyarrow import parquet

from crawlstream.store.store import Store
from crawlstream_cli.local.ports import free_block
from support.pipelines.cluster import PipelineCluster
from support.pipelines.results import page_id, record
from support.waiting import WaitUntil

SLOWLY_S = 240
"""Each page that ends workers ends three of them, and new ones must start."""
CODE = '''
import os, time
from pipeline_service import Page

def product(page: Page):
    """The products of a page, and what hostile ones do to it."""
    if "crash" in page.text:
        os.abort()
    if "eat" in page.text:
        bytearray(4 << 30)
    if "slow" in page.text:
        with open(os.environ["TRACE"], "a") as trace:
            trace.write(f"{os.getpid()}\\n")
        time.sleep(0.02)
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
    """Modules that the stages name, next to the file of the pipelines."""
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


def account(cluster: PipelineCluster) -> dict[str, Any]:
    """Output of ``pipeline list`` on all that is stored."""
    (told,) = map(orjson.loads, cluster.command("list", "--json").stdout.splitlines())
    return dict(told)


def metrics_with(line: bytes, port: int) -> bytes:
    """Metrics of a process, once it reports a line."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        told: bytes = answer.read()
    return told if line in told else b""


def is_alive(pid: int) -> bool:
    """Return whether a process still runs."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


async def test_items_have_the_columns_of_their_schema(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """Stores items in the columns of their schema; invalid ones say why."""
    cluster.describe(which="parquet", more=STAGES)
    cluster.feed([page(1, "Lamp 5", "Cheap 0"), page(2, "Desk 7")])
    with cluster.process().running():
        await wait_until(lambda: keys(cluster, "parquet").total() == 3, timeout_s=SLOWLY_S)
    told = {row["name"]: (row["price"], row["_errors"]) for row in rows(cluster, "parquet")}
    too_cheap = ["price: 0.0 is less than the minimum of 1"]
    assert told == {"Lamp 5": (5.0, None), "Cheap 0": (0.0, too_cheap), "Desk 7": (7.0, None)}


async def test_items_are_stored_once_and_hostile_pages_are_undelivered(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """Stores the other pages, whatever a page does to its worker; the account closes."""
    cluster.describe(more=STAGES, sink="max_records = 50")
    cluster.feed(page(n, f"Lamp{n} 5", f"Cheap{n} 0") for n in range(60))
    hostile = ["hang", "crash", "raise", "eat"]
    cluster.feed(page(100 + n, f"{word} 1") for n, word in enumerate(hostile))
    # A page that comes again is a repeat, whatever its outcome.
    cluster.feed([page(104), page(3, "Again 9"), page(101, "crash"), page(102, "good 9")])
    expected = Counter((page_id(n), item) for n in range(60) for item in range(2))
    process = cluster.process()
    with process.running():
        await wait_until(lambda: cluster.read() == 68, timeout_s=SLOWLY_S)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    assert keys(cluster, "jsonl") == expected
    assert {row["name"] for row in rows(cluster, "jsonl")} == {
        f"{word}{n} {price}" for n in range(60) for word, price in (("Lamp", 5), ("Cheap", 0))
    }
    marked = {row["name"] for row in rows(cluster, "jsonl") if row.get("_errors")}
    assert marked == {f"Cheap{n} 0" for n in range(60)}
    undelivered = cluster.records(cluster.topics.undelivered)
    assert sorted((each["reason"], each["id"]) for each in undelivered) == sorted(
        [
            ("stage_timeout", page_id(100)),
            ("stage_killed", page_id(101)),
            ("stage_failed", page_id(102)),
            ("stage_killed", page_id(103)),
        ]
    )
    assert {each.get("stage") for each in undelivered} == {None, "product"}
    told = account(cluster)
    assert told["filtered"] == {"product": 1}
    assert told["undelivered"] == {"stage_failed": 1, "stage_killed": 2, "stage_timeout": 1}
    assert (told["delivered"], told["repeats"], told["closed"]) == (60, 3, True)


EXPECT = """
[pipeline.archive.expect]
items = {min = 10}
name = {valid = 1}
price = {present = 1, valid = 0.9}
"""


async def test_the_quality_of_a_run_is_told(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """Reports quality when a run is stored: fields, rates and rules, equally everywhere."""
    cluster.describe(more=f"{STAGES}{EXPECT}", sink="max_records = 7")
    cluster.feed(page(n, "Lamp 5", "Desk 0" if n < 3 else "Desk 7") for n in range(10))
    cluster.end_run(done=10)
    port = free_block(1)
    with cluster.process(CRAWLSTREAM_METRICS_PORT=str(port)).running():
        told = await wait_until(cluster.deliveries, timeout_s=SLOWLY_S)
        missed = b'crawlstream_pipeline_runs_judged_total{outcome="missed",pipeline="archive"} 1.0'
        metrics = await wait_until(lambda: metrics_with(missed, port))
    quality = {name: told[0][name] for name in ("items", "fields", "score", "expect", "ok")}
    assert quality == {
        "items": 20,
        "fields": {
            "name": {"present": 1.0, "valid": 1.0},
            "price": {"present": 1.0, "valid": 0.85, "errors": {"minimum": 3}},
        },
        "score": 0.925,
        "expect": [
            {"items.min": 10, "value": 20, "met": True},
            {"name.valid": 1.0, "value": 1.0, "met": True},
            {"price.present": 1.0, "value": 1.0, "met": True},
            {"price.valid": 0.9, "value": 0.85, "met": False},
        ],
        "ok": False,
    }
    valid = b'crawlstream_pipeline_field_valid_ratio{field="price",pipeline="archive"} 0.85'
    assert valid in metrics
    reported = cluster.command("report", "archive", "--json")
    assert reported.returncode == 1, "it is not what was expected"
    assert {name: orjson.loads(reported.stdout)[name] for name in quality} == quality
    table = " ".join(cluster.command("report", "archive").stdout.split())
    assert "price 100.0% 85.0% present 100.0%: met, valid 90.0%: missed minimum 3" in table


async def test_whoever_is_killed_each_item_is_stored_once(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """A worker in the middle of a page, then the pipeline: neither costs a page, or leaves one."""
    cluster.describe(more=STAGES, sink="max_records = 50")
    cluster.feed(page(n, f"slow{n} 5") for n in range(150))
    trace = cluster.home / "trace"
    first = cluster.process(TRACE=str(trace))
    workers: list[int] = []

    def other_worker() -> int | None:
        """A running process that was not killed yet."""
        pids = [int(pid) for pid in trace.read_text().split()] if trace.exists() else []
        return next((pid for pid in reversed(pids) if pid not in workers), None)

    with first.running():
        for _ in range(2):
            workers.append(await wait_until(other_worker, timeout_s=SLOWLY_S))
            os.kill(workers[-1], signal.SIGKILL)
        workers += [each.pid for each in psutil.Process(first.pid).children()]
    await wait_until(lambda: not any(map(is_alive, workers)))
    with (second := cluster.process("p2", TRACE=str(trace))).running():
        expected = Counter((page_id(n), 0) for n in range(150))
        await wait_until(lambda: keys(cluster, "jsonl") == expected, timeout_s=SLOWLY_S)
        second.signal(signal.SIGTERM)
        assert second.wait() == 0
    assert account(cluster)["delivered"] == 150
    assert not cluster.records(cluster.topics.undelivered)


async def test_stages_that_were_corrected_get_a_second_chance(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """`check` and `preview` print what they make; `replay` stores what they can make by now."""
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
        await wait_until(lambda: len(keys(cluster, "jsonl")) == 2, timeout_s=SLOWLY_S)
        await wait_until(lambda: cluster.records(cluster.topics.undelivered), timeout_s=SLOWLY_S)
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
        await wait_until(lambda: '"event":"broken"' in process.logged(), timeout_s=SLOWLY_S)
        assert "20 records in a row are undelivered (stage_failed)" in process.logged()
        assert not list(rows(cluster, "jsonl"))
        process.signal(signal.SIGTERM)
        assert process.wait() == 0


async def test_stages_that_cannot_be_loaded_end_the_start(cluster: PipelineCluster) -> None:
    """Ends the start with a sentence, and no stack trace."""
    cluster.describe(more='stage = [{use = "python:nowhere:f"}]')
    for verb in ("check", "run"):
        done = cluster.command(verb)
        assert done.returncode == 2
        assert "pipeline.archive: stage f: nowhere:f cannot be imported" in done.stderr
        assert "Traceback" not in done.stderr
