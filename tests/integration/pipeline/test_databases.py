"""Pipeline processes between a real Kafka and a real PostgreSQL: what is on the topic is a row."""

from __future__ import annotations

import signal
from collections import Counter

import orjson

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import CrawlEvent
from crawlstream.wire import events
from crawlstream_chaos.proxy import FaultyProxy
from crawlstream_chaos.stores.postgres import RunningPostgres
from crawlstream_cli.local.ports import free_block
from support.pipelines.cluster import PipelineCluster
from support.pipelines.results import page_id, record
from support.pipelines.targets import ids_of, select
from support.waiting import WaitUntil


async def test_pages_become_rows_once_whoever_dies(
    cluster: PipelineCluster,
    postgres_server: RunningPostgres,
    fresh_name: str,
    wait_until: WaitUntil,
) -> None:
    """Two processes share the partitions, one is killed; the account of the run is published.

    The database has no encoding, as one has that was made without a locale.
    """
    url = postgres_server.make_database(fresh_name, encoding="SQL_ASCII")
    rows = f"{url}?client_encoding=UTF8"
    cluster.describe_sink(f'kind = "sql"\nurl = "{url}"')
    checked = cluster.command("check")
    place = f"pages of postgresql://127.0.0.1:{postgres_server.port}/{fresh_name}"
    assert f"archive: {place}" in checked.stdout, checked.stderr
    pages, processes = 120, [cluster.process(f"p{n}") for n in range(2)]
    cluster.feed(record(n) for n in range(60))
    try:
        for process in processes:
            process.start()
        await wait_until(lambda: len(ids_of(rows)) >= 30)
        processes[0].kill()
        cluster.feed(record(n) for n in [*range(60, pages), 3, 64])
        ending = CrawlEvent(
            event="crawl_finished",
            crawl=CrawlKey("link", "app", "job"),
            run=1,
            server_time=1,
            started_at=1,
            counters={"admitted": pages, "done": pages},
        )
        cluster.feed([events.encode(ending)], topic=cluster.topics.events, key=b"ending")
        told = await wait_until(
            lambda: [
                e for e in cluster.records(cluster.topics.events) if e["event"] == "run_delivered"
            ],
            timeout_s=60,
        )
        processes[1].signal(signal.SIGTERM)
        assert processes[1].wait() == 0
    finally:
        for process in processes:
            process.kill()
    assert ids_of(rows) == Counter(page_id(n) for n in range(pages))
    account = {name: told[0][name] for name in ("read", "repeats", "delivered", "complete")}
    assert account == {"read": 122, "repeats": 2, "delivered": 120, "complete": True}
    (run,) = map(orjson.loads, cluster.command("report", "archive", "--json").stdout.splitlines())
    assert (run["delivered"], run["closed"], run["complete"]) == (pages, True, True)


async def test_a_database_that_is_away_holds_up_its_own_pipeline_only(
    cluster: PipelineCluster,
    postgres_server: RunningPostgres,
    fresh_name: str,
    wait_until: WaitUntil,
) -> None:
    """Delays only the pipeline of an unavailable database, from the start and at a stop."""
    url = postgres_server.make_database(fresh_name)
    proxy = FaultyProxy(free_block(1), postgres_server.port)
    cluster.describe()
    away = url.replace(str(postgres_server.port), str(proxy.port))
    with cluster.file.open("a") as file:
        file.write(f'[pipeline.rows]\nsink = {{kind = "sql", url = "{away}"}}\n')
    checked = cluster.command("check")
    assert checked.returncode == 1
    assert "archive: jsonl to file://" in checked.stdout
    assert "pipeline.rows: PostgreSQL cannot be connected to" in checked.stderr
    listed = cluster.command("list", "--json")
    assert (listed.returncode, orjson.loads(listed.stdout)["pipeline"]) == (1, "archive")
    assert listed.stderr.startswith("crawlstream: pipeline.rows: PostgreSQL cannot")
    cluster.feed(record(n) for n in range(3))
    process = cluster.process()
    with process.running():
        await wait_until(lambda: cluster.stored().total() == 3)
        waits = [line for line in process.logged().splitlines() if "cannot be connected" in line]
        assert {orjson.loads(line)["pipeline"] for line in waits} == {"rows"}
        await proxy.start()
        await wait_until(lambda: ids_of(url).total() == 3)
        await proxy.stop()
        cluster.feed([record(3)])
        await wait_until(lambda: cluster.stored().total() == 4)
        process.signal(signal.SIGTERM)
        assert process.wait(30) == 0, "it has waited for the database"
        await proxy.start()
        process.start()
        await wait_until(lambda: ids_of(url) == Counter(page_id(n) for n in range(4)))
    await proxy.stop()


async def test_a_refused_row_is_undelivered_and_has_a_second_chance(
    cluster: PipelineCluster,
    postgres_server: RunningPostgres,
    fresh_name: str,
    wait_until: WaitUntil,
) -> None:
    """The rest goes on; when the table takes it, a replay writes it, and again it is there once."""
    url = postgres_server.make_database(fresh_name)
    cluster.describe_sink(f'kind = "sql"\nurl = "{url}"')
    process = cluster.process()
    cluster.feed([record(1)])
    with process.running():
        await wait_until(lambda: ids_of(url).total() == 1)
        select(url, "alter table pages add constraint picky check (depth < 5)")
        cluster.feed(record(n, depth=n) for n in range(2, 7))
        await wait_until(lambda: ids_of(url).total() == 4)
        await wait_until(lambda: len(cluster.records(cluster.topics.undelivered)) >= 2)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    undelivered = cluster.records(cluster.topics.undelivered)
    assert {each["reason"] for each in undelivered} == {"sink_refused"}
    assert all("picky" in each["errors"][0] for each in undelivered)
    refused = cluster.command("undelivered", "replay", "archive", "--all")
    assert (refused.returncode, "picky" in refused.stdout) == (1, True), refused.stderr
    select(url, "alter table pages drop constraint picky")
    for _ in range(2):
        replayed = cluster.command("undelivered", "replay", "archive", "--reason", "sink_refused")
        assert replayed.returncode == 0, replayed.stdout
    assert ids_of(url) == Counter(page_id(n) for n in range(1, 7))
    total = orjson.loads(cluster.command("list", "--json").stdout)
    assert (total["delivered"], total["undelivered"], total["lag"]) == (4, {"sink_refused": 2}, 0)
