"""A pipeline process that writes archives of pages and of their requisites, and is killed."""

from __future__ import annotations

import signal
from typing import Any

import orjson

from support.forks.program import run
from support.pipelines.cluster import PipelineCluster
from support.pipelines.results import record
from support.waiting import WaitUntil

PAGES, REQUISITES, REDIRECTS = 30, 40, 5
PAYLOADS = 4


def _records(first: int, count: int, **more: str) -> list[bytes]:
    """Return records of pages of their own URLs that have few payloads."""
    made = []
    for number in range(first, first + count):
        url = f"http://127.0.0.7:8080/{number}"
        value = record(number, response_url=url, body=b"payload %d " % (number % PAYLOADS) * 100)
        made.append(orjson.dumps(orjson.loads(value) | more))
    return made


def _list(cluster: PipelineCluster) -> dict[str, dict[str, Any]]:
    """Return the lines of ``archive list`` by pipeline."""
    argv = ("crawlstream_cli", "archive", "list", "--json")
    done = run(*argv, env=cluster.env, folder=cluster.home, timeout_s=120)
    assert done.returncode == 0, done.stderr
    lines = map(orjson.loads, done.stdout.splitlines())
    return {each["pipeline"]: each for each in lines}


async def test_pages_and_requisites_are_archived_once(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """Both archives are whole after a kill, and count requisites apart from redirects."""
    sink = f'kind = "files", path = "{cluster.out}", format = "warc.gz", max_records = 8'
    cluster.file.write_text(
        "".join(
            f'[pipeline.{name}]\nsource = "{source}"\n'
            f'sink = {{{sink}, max_age = "1s", revisits = {{}}}}\n'
            for name, source in (("pages", "crawled"), ("requisites", "requisites"))
        )
    )
    cluster.feed(_records(0, PAGES))
    requisites = [
        *_records(100, REQUISITES, kind="requisite"),
        *_records(200, REDIRECTS, kind="redirect"),
    ]
    cluster.feed(requisites[:20], topic=cluster.topics.requisites)
    process = cluster.process("killed", FAILPOINT="after_put:kill:3")
    with process.running():
        assert process.wait() == -signal.SIGKILL
    # Some come again, as when a crawler has died.
    cluster.feed(requisites[10:], topic=cluster.topics.requisites)
    wanted = {"pages": PAGES, "requisites": REQUISITES + REDIRECTS}
    process = cluster.process("next")
    with process.running():
        await wait_until(lambda: {n: each["pages"] for n, each in _list(cluster).items()} == wanted)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    listed = _list(cluster)
    assert [listed[name]["requisites"] for name in wanted] == [0, REQUISITES]
    for name, pages in wanted.items():
        argv = ("crawlstream_cli", "archive", "verify", name, "--json")
        done = run(*argv, env=cluster.env, folder=cluster.home, timeout_s=120)
        told = orjson.loads(done.stdout)
        assert (done.returncode, told["problems"], told["pages"]) == (0, 0, pages), told
        assert told["unfinished"] == 0
        assert 0 < told["revisits"] == listed[name]["revisits"]
