"""Pipeline processes on a real Kafka: what is on the topic is in the files, once."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from functools import partial
from typing import Any

import orjson
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.topics import forget_records
from crawlstream.keys import FrontierKeys
from crawlstream.stats.heartbeat import living
from rest_service.v2.pipeline_states import states_of
from support.pipelines.cluster import PipelineCluster
from support.pipelines.results import page_id, record
from support.pipelines.targets import rows_of_delta, select
from support.waiting import WaitUntil

HOSTILE = [
    b"",
    b"not JSON",
    b"[]",
    b"\xff\xfe",
    b"[" * 50_000,
    b'{"id": 1}',
    orjson.dumps({"id": "x" * 5_000_000}),
    orjson.dumps(orjson.loads(record(0)) | {"run": "one"}),
    orjson.dumps(orjson.loads(record(0)) | {"timestamp": "9999-99-99"}),
    orjson.dumps(orjson.loads(record(0)) | {"links": {"a": 1}, "appid": "../../etc"}),
]


def once(numbers: range) -> Counter[str]:
    """These pages, each once."""
    return Counter(page_id(number) for number in numbers)


def has_stored(cluster: PipelineCluster, pages: int) -> bool:
    """Return whether that number of pages are stored."""
    return cluster.stored("jsonl.zst").total() >= pages


async def has_told(cluster: PipelineCluster, read: int) -> bool:
    """Return whether its heartbeat reports that number of pages as read, and nothing as left."""
    async with Redis(port=int(cluster.env["REDIS_PORT"])) as redis:
        keys = FrontierKeys(cluster.env["CRAWLSTREAM_NAMESPACE"])
        found = states_of(await living(redis, keys))
    return [(each.name, each.state, each.lag, each.read) for each in found] == [
        ("archive", "running", 0, read)
    ]


def lake_of(cluster: PipelineCluster) -> Counter[str]:
    """How often each page is in the Delta table."""
    return Counter(page for page, _ in rows_of_delta(str(cluster.home / "lake")))


def told_of_report(cluster: PipelineCluster, name: str = "archive") -> list[dict[str, Any]]:
    """Output of ``pipeline report``, by run."""
    done = cluster.command("report", name, "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    return [orjson.loads(line) for line in done.stdout.splitlines()]


async def test_pages_are_stored_and_the_account_of_their_run_is_told(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """Repeats are dropped, a stop stores what is open, and the end of a run is an event."""
    cluster.describe(which="jsonl", more='where = {status = ["2xx"]}')
    cluster.feed([*(record(n) for n in range(30)), record(3), *[record(90, status_code=404)] * 2])
    process = cluster.process()
    with process.running():
        await wait_until(lambda: cluster.stored() == once(range(30)))
        cluster.end_run(done=31)
        told = await wait_until(cluster.deliveries)
        await wait_until(partial(has_told, cluster, 33))
        cluster.feed(record(n) for n in range(30, 33))
        await wait_until(lambda: '"pages"' in process.logged() or cluster.stored()[page_id(32)])
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    account = {name: told[0][name] for name in ("read", "repeats", "delivered", "done", "silent")}
    assert account == {"read": 33, "repeats": 2, "delivered": 30, "done": 31, "silent": 0}
    assert (told[0]["pipeline"], told[0]["complete"]) == ("archive", True)
    assert told[0]["filtered"] == {"where.status": 1}
    assert cluster.stored() == once(range(33))
    (run,) = told_of_report(cluster)
    assert (run["read"], run["delivered"], run["complete"], run["closed"]) == (36, 33, True, True)
    assert not list((cluster.home / "spool").iterdir()), "nothing is left in the spool"
    listed = cluster.command("list", "--json")
    assert orjson.loads(listed.stdout)["lag"] == 0, listed.stderr


async def test_whoever_dies_each_page_is_stored_once(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """Two processes share the partitions; they are killed and frozen by turns while pages come.

    Files and a Delta table are written by the same processes.
    """
    cluster.describe(which="jsonl.zst", sink="max_records = 20")
    with cluster.file.open("a") as file:
        file.write(
            f'[pipeline.lake]\nsink = {{kind = "delta", url = "{cluster.home}/lake",'
            ' max_age = "5s", max_records = 20}\n'
        )
    pages, processes = 0, [cluster.process(f"p{n}") for n in range(2)]
    cluster.feed(record(n) for n in range(60))
    faults = ("kill", "stop", "kill")
    try:
        for process in processes:
            process.start()
        for turn, fault in enumerate(faults):
            process = processes[turn % 2]
            new = range(pages, pages + 60)
            cluster.feed(record(n) for n in [*new, *new[::9]])
            pages = new.stop
            half = partial(has_stored, cluster, pages // 2)
            await wait_until(half)
            if fault == "kill":
                process.kill()
                process.start()
            else:
                process.signal(signal.SIGSTOP)
                await asyncio.sleep(8)  # Longer than Kafka waits for a member of a group.
                process.signal(signal.SIGCONT)
        await wait_until(lambda: cluster.stored("jsonl.zst") == once(range(pages)), timeout_s=90)
        await wait_until(lambda: lake_of(cluster) == once(range(pages)), timeout_s=90)
        for process in processes:
            process.signal(signal.SIGTERM)
        # A process that has just been started may not be listening yet.
        assert {process.wait() for process in processes} <= {0, -signal.SIGTERM}
    finally:
        for process in processes:
            process.kill()
    assert cluster.stored("jsonl.zst") == lake_of(cluster) == once(range(pages))
    for name in ("archive", "lake"):
        (run,) = told_of_report(cluster, name)
        assert run["delivered"] == pages
        assert run["read"] == run["delivered"] + run["repeats"]


async def test_what_is_no_page_is_undelivered(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """Whole and with its reason; the pages between are stored, and the process lives."""
    cluster.describe(which="parquet")
    cluster.feed([record(1)])
    cluster.feed(HOSTILE, key=b"k")
    cluster.feed([None], key=b"k")
    cluster.feed([record(2, body=b"x" * 3_000_000)])
    process = cluster.process()
    with process.running():
        await wait_until(lambda: cluster.stored("parquet") == once(range(1, 3)))
        await wait_until(
            lambda: len(cluster.records(cluster.topics.undelivered)) == len(HOSTILE) + 1
        )
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    undelivered = cluster.records(cluster.topics.undelivered)
    assert {each["reason"] for each in undelivered} == {"unreadable"}
    assert {each["pipeline"] for each in undelivered} == {"archive"}
    listed = cluster.command("undelivered", "list", "archive", "--json")
    names = {orjson.loads(line)["id"] for line in listed.stdout.splitlines()}
    assert len(names) == len(HOSTILE) + 1
    shown = cluster.command("undelivered", "show", "archive", min(names))
    assert shown.returncode == 0
    replayed = cluster.command("undelivered", "replay", "archive", "--all")
    assert replayed.returncode == 1, "none of them is a page now"
    assert "the record is not JSON" in replayed.stdout
    total = orjson.loads(cluster.command("list", "--json").stdout)
    assert total["undelivered"] == {"unreadable": len(HOSTILE) + 1}
    assert total["closed"]


async def test_records_that_kafka_has_deleted_are_told(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """A pipeline that was away for too long says so, and goes on with what there is, if it may."""
    cluster.describe()
    cluster.feed([record(1)] * 8, key=b"one")
    process = cluster.process()
    with process.running():
        await wait_until(lambda: cluster.stored() == once(range(1, 2)))
        process.signal(signal.SIGTERM)
        process.wait()
    cluster.feed((record(n) for n in range(2, 12)), key=b"one")
    kafka = Kafka([cluster.hosts])
    await forget_records(kafka, cluster.topics.crawled, {0: -1, 1: -1})
    cluster.feed((record(n) for n in range(20, 22)), key=b"one")
    cluster.describe(more='on_gap = "stop"')
    with process.running():
        await wait_until(lambda: "before they were read: to go on" in process.logged())
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    assert not cluster.records(cluster.topics.undelivered)
    cluster.describe()
    with process.running():
        await wait_until(lambda: cluster.stored()[page_id(21)])
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    assert cluster.stored() == once(range(1, 2)) + once(range(20, 22))
    (marker,) = cluster.records(cluster.topics.undelivered)
    assert marker["reason"] == "out_of_range"
    total = orjson.loads(cluster.command("list", "--json").stdout)
    assert (total["lost"], total["closed"], total["lag"]) == (10, True, 0)


async def test_a_flood_of_what_is_no_page_stops_the_pipeline(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """It waits for an operator, in words, rather than to empty a topic that it should not read."""
    cluster.describe(more="stop_after_undelivered = 20")
    cluster.feed([b"{}"] * 50, key=b"k")
    process = cluster.process()
    with process.running():
        await wait_until(lambda: "20 records in a row are undelivered" in process.logged())
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    assert orjson.loads(cluster.command("list", "--json").stdout)["read"] < 50


async def test_a_pipeline_may_begin_with_what_comes_next(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """Its beginning is kept, though nothing was stored before it died."""
    cluster.describe(more='start = "latest"')
    cluster.feed([record(1)] * 3)
    process = cluster.process()
    with process.running():
        await wait_until(lambda: process.logged().count('"event":"read"') >= 2)
    cluster.feed([record(2)])
    with process.running():
        await wait_until(lambda: cluster.stored() == once(range(2, 3)))


def test_a_pipeline_ends_with_its_source(cluster: PipelineCluster) -> None:
    """Ends with `--until-end` when all that was there at the start is stored."""
    files = f'kind = "files"\npath = "{cluster.out}"\nformat = "jsonl"\nmax_age = "1h"'
    cluster.describe_sink(files)
    for pages in (3, 5):
        cluster.feed(record(n) for n in range(pages))
        cluster.end_run(done=pages)
        done = cluster.command("run", "--until-end")
        assert done.returncode == 0, done.stderr
        assert cluster.stored() == once(range(pages))
        assert (cluster.deliveries()[-1]["done"], cluster.deliveries()[-1]["complete"]) == (
            pages,
            True,
        )
        titles, row = done.stdout.splitlines()[:2]
        assert dict(zip(titles.split(), row.split(), strict=True))["delivered"] == str(pages)
    cluster.describe_sink(files, "edition = 2\nstop_after_undelivered = 1")
    cluster.feed([b"{}"], key=b"k")
    done = cluster.command("run", "--until-end")
    assert done.returncode == 1
    assert (
        "crawlstream: archive: 1 records in a row are undelivered" in done.stderr.splitlines()[-1]
    )


def test_a_person_is_told_what_is_wrong(cluster: PipelineCluster) -> None:
    """Reports errors in one sentence with exit code 2, before anything runs."""
    cluster.describe(sink="colour = 1")
    for verb in ("run", "check", "list"):
        done = cluster.command(verb)
        assert done.returncode == 2
        assert "pipeline.archive.sink: unknown key 'colour'; known: path, format" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    cluster.file.unlink()
    done = cluster.command("check")
    assert (done.returncode, "set CRAWLSTREAM_PIPELINES" in done.stderr) == (2, True)


def test_a_person_looks_before_anything_is_written(cluster: PipelineCluster) -> None:
    """``check`` proves the store, ``preview`` shows rows; neither leaves a file."""
    cluster.describe(more='where = {status = ["200"]}')
    cluster.feed([record(1), record(2, status_code=500)])
    cluster.feed([b"none"], key=b"k")
    checked = cluster.command("check")
    assert checked.returncode == 0, checked.stderr
    assert f"archive: jsonl to file://{cluster.out}" in checked.stdout
    shown = cluster.command("preview", "archive")
    assert shown.returncode == 0, shown.stderr
    assert "filtered: where.status" in shown.stdout
    assert "the record is not JSON" in shown.stdout
    assert '"folder":"date=2026-11-21/"' in shown.stdout
    assert "secret" not in shown.stdout
    assert not [each for each in cluster.out.rglob("*") if each.is_file()]


async def test_a_pipeline_works_without_redis(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """Redis has the process' heartbeat; pages do not wait for it."""
    cluster.describe()
    cluster.feed([record(1)])
    with cluster.process(REDIS_PORT="1").running():
        await wait_until(lambda: cluster.stored() == once(range(1, 2)))


async def test_a_redis_that_refuses_the_pipeline_ends_it_with_2(cluster: PipelineCluster) -> None:
    """A user that Redis does not know is not waited for: one sentence names the setting."""
    cluster.describe()
    nobody = {"CRAWLSTREAM_REDIS_USERNAME": "nobody", "REDIS_PASSWORD": "wrong"}
    with (process := cluster.process(**nobody)).running():
        assert process.wait(60) == 2
        told = process.logged()
    assert "set REDIS_PASSWORD" in told
    assert "Traceback" not in told, told


async def test_each_sink_has_each_page_once_while_another_is_away(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """Two sinks of one table: what one cannot take now, it has later; the other goes on."""
    database = cluster.home / "pages.db"
    cluster.file.write_text(
        "[pipeline.shop]\nworkers = 0\nstage = [{use = 'page'}]\n"
        f'[[pipeline.shop.sinks]]\nkind = "files"\npath = "{cluster.out}"\nformat = "jsonl"\n'
        f'max_age = "1s"\n[[pipeline.shop.sinks]]\nkind = "sql"\nurl = "sqlite:///{database}"\n'
    )
    cluster.feed([*(record(n) for n in range(5)), record(3)])
    with closing(sqlite3.connect(database)) as other, cluster.process().running():
        other.execute("begin exclusive")
        await wait_until(lambda: _files_of(cluster) == once(range(5)))
    cluster.feed(record(n) for n in range(5, 8))
    both = cluster.command("run", "shop", "--until-end")
    assert both.returncode == 0, both.stderr
    assert _files_of(cluster) == once(range(8))
    rows = select(f"sqlite:///{database}", "select id, title from pages")
    assert Counter(row["id"] for row in rows) == once(range(8))
    named = cluster.command("report", "shop")
    assert named.returncode == 2
    assert "has several sinks: name one of shop-files, shop-sql" in named.stderr


def _files_of(cluster: PipelineCluster) -> Counter[str]:
    """The ids in the files of the table's first sink."""
    files = (cluster.out / "shop-files").rglob("date=*/*.jsonl")
    return Counter(
        orjson.loads(line)["id"] for file in files for line in file.read_bytes().splitlines()
    )
