"""The recipe for Kafka Connect, as ``docs/pipelines.md`` has it.

Only with CRAWLSTREAM_LONG=1: Maven fetches a hundred jars.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from kafka import KafkaProducer

from crawlstream.bus.connect import Kafka
from crawlstream.bus.topics import create_missing
from crawlstream.wire.delivered import decode
from crawlstream_chaos.processes import Program, RunningServer
from crawlstream_chaos.stores.postgres import RunningPostgres
from crawlstream_cli.local.ports import free_block
from support.documented import DOCS
from support.pipelines.results import page_id, record
from support.pipelines.targets import ids_of, select
from support.waiting import WaitUntil

RECIPE = DOCS / "connect"
PAGES = 60


def jars(folder: Path) -> Path:
    """Versions of the worker and its connector, as Maven fetches them."""
    target = folder / "jars"
    command = ["mvn", "-q", "-B", "-f", str(RECIPE / "pom.xml"), "dependency:copy-dependencies"]
    subprocess.run([*command, f"-DoutputDirectory={target}"], check=True, timeout=1200)
    return target


def properties(name: str, folder: Path, **changed: str) -> Path:
    """A file of the recipe with other hosts."""
    lines = (RECIPE / name).read_text().splitlines()
    lines = [line for line in lines if line.partition("=")[0] not in changed]
    path = folder / name
    path.write_text("\n".join([*lines, *(f"{key}={value}" for key, value in changed.items())]))
    return path


def fill(hosts: str, topic: str) -> None:
    """Make a topic of results, some of which come twice."""
    kafka = Kafka([hosts])
    create_missing(kafka, {topic: kafka.shape.options()})
    producer = KafkaProducer(bootstrap_servers=hosts)
    for number in [*range(PAGES), 3, 4, 5]:
        producer.send(topic, record(number), key=page_id(number).encode())
    producer.flush()
    producer.close()


def schema() -> str:
    """Output of the command."""
    command = (sys.executable, "-m", "crawlstream_cli", "pipeline", "schema", "--flat")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


async def test_results_become_rows(
    kafka_server: RunningServer,
    postgres_server: RunningPostgres,
    fresh_name: str,
    tmp_path: Path,
    wait_until: WaitUntil,
) -> None:
    """Writes each result as one row, unchanged, though some results come twice."""
    hosts, topic = f"127.0.0.1:{kafka_server.port}", f"{fresh_name}.crawled_firehose"
    fill(hosts, topic)
    url = postgres_server.make_database(fresh_name)
    worker = properties(
        "worker.properties",
        tmp_path,
        **{
            "bootstrap.servers": hosts,
            "listeners": f"http://127.0.0.1:{free_block(1)}",
            "offset.storage.file.filename": str(tmp_path / "offsets"),
            "value.converter.schema.content": schema(),
        },
    )
    connector = properties(
        "postgresql.properties",
        tmp_path,
        **{"topics": topic, "connection.url": f"jdbc:{url.replace('postgres@', '')}"},
    )
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    classpath = f"{jars(tmp_path)}/*"
    connect = Program(
        *("java", "-Xmx400m", "-cp", classpath, main, str(worker), str(connector)),
        env=dict(os.environ),
        log=tmp_path / "connect.log",
    )
    with connect.running():
        await wait_until(lambda: len(ids_of(url)) == PAGES, timeout_s=180)
    assert ids_of(url) == Counter(page_id(number) for number in range(PAGES))
    pages = {page["id"]: page for page in select(url, "select * from pages")}
    page = pages[page_id(1)]
    assert (page["status_code"], page["run"]) == (200, 1)
    assert page["body"] == decode(record(1)).body.decode()
