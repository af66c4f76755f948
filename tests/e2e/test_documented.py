"""Commands of the documentation do what it says."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError

from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.sites import Serve
from pictures.__main__ import APP, CRAWL, Shot, shots
from support.reference import METRICS
from support.reference import metrics_of as metrics_in
from support.waiting import WaitUntil

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"demo", "up", "down"}
"""Verbs that begin and end a cluster: test_demo.py and test_cluster.py run these as they stand."""


PROCESSES = ("crawler-link-1", "kafka-monitor", "redis-monitor", "rest")
FIGURES = (
    "crawlstream_ledger_residual 0.0",
    "crawlstream_zookeeper_connected 1.0",
    "crawlstream_redis_write_ok 1.0",
    'crawlstream_intake_lag_records{partition="0"} ',
    'crawlstream_domain_success_ratio{domain="127.',
    "crawlstream_disk_free_bytes ",
)
"""Metrics that a redis-monitor of a healthy cluster reports within seconds."""


def kind_of(process: str) -> str:
    """Return the kind of a process, by its name."""
    return "crawler" if process.startswith("crawler-") else process


async def metrics_of(cluster: Cluster, process: str) -> str:
    """The page of metrics of a process."""
    port = cluster.local._layout.port_of(kind_of(process), process)
    url = f"http://127.0.0.1:{port}/metrics"
    page: bytes = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=30).read())
    return page.decode()


def blocks(page: str, language: str) -> list[str]:
    """The pieces of code of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


async def test_the_commands_of_the_quickstart_work(
    serve: Serve, cluster: Cluster, tmp_path: Path
) -> None:
    """Each of its lines succeeds with a site of the test; the crawl's file holds pages."""
    lines = [line for block in blocks("docs/quickstart.md", "sh") for line in block.splitlines()]
    commands = [line.removeprefix("./crawlstream ") for line in lines if line[0] == "."]
    assert {command.split()[0] for command in commands} == ELSEWHERE | {
        "status",
        "crawl",
        "throttle",
    }
    file = tmp_path / "pages.jsonl"
    async with serve(hosts=1, pages=5) as served:
        for command in commands:
            if command.split()[0] in ELSEWHERE:
                continue
            here = command.replace("https://example.com", served.web.seed_url)
            here = here.replace("example.com", served.web.hosts[0])
            done = await cluster.run(*shlex.split(here.replace("pages.jsonl", str(file))))
            assert done.status == 0, (command, done.err)
    pages = [json.loads(line) for line in file.read_text().splitlines()]
    assert served.web.seed_url in {page["url"] for page in pages}


_APP = "first-crawl"
"""The README's program crawls for ``my-app``, maybe in the same cluster: its pages would count."""


async def test_the_programs_of_the_first_crawl_work(
    serve: Serve, cluster: Cluster, tmp_path: Path
) -> None:
    """The first feeds; the second prints each page and the ending, and exits; `info` agrees."""
    feed, read = blocks("docs/first-crawl.md", "python")
    async with serve(hosts=1, pages=5) as served:
        program = f"{feed}\n{read}".replace("localhost:9092", cluster.hosts)
        program = program.replace("https://example.com/", served.web.seed_url)
        program = program.replace("my-app", _APP)
        script = tmp_path / "client.py"
        script.write_text(program)
        output = tmp_path / "client.out"
        with output.open("wb") as file:
            client = await asyncio.create_subprocess_exec(
                *(sys.executable, "-u", str(script)), stdout=file, stderr=file
            )
        with suppress(TimeoutError):
            # Told below, with all that it has printed.
            await asyncio.wait_for(client.wait(), 120)
        if client.returncode is None:
            client.kill()
            await client.wait()
    (info,) = [
        line
        for block in blocks("docs/first-crawl.md", "sh")
        for line in block.splitlines()
        if " info " in line
    ]
    done = await cluster.run(*shlex.split(info.replace("my-app", _APP))[1:], "--json")
    out = output.read_text()
    assert client.returncode == 0, (out, done.out, done.err)
    assert f"200 {served.web.seed_url}" in out
    assert "crawl_finished" in out
    assert json.loads(done.out)["state"] == "finished"


async def test_every_metric_of_a_running_cluster_is_documented(
    serve: Serve, cluster: Cluster, wait_until: WaitUntil
) -> None:
    """Each process reports the metrics of its page, and no others; pages and figures are there."""
    told = {process: await metrics_of(cluster, process) for process in PROCESSES}
    for process, text in told.items():
        kinds = {"Every process", kind_of(process)}
        modules = [
            module for of, module in METRICS.items() if kinds & {of, *re.split(", | and ", of)}
        ]
        known = {metric._name for module in modules for metric in metrics_in(module)}
        names = set(re.findall(r"^# TYPE (crawlstream_\w+?)(?:_total)? ", text, re.MULTILINE))
        assert names == known, process

    async def crawled() -> float:
        texts = [await metrics_of(cluster, f"crawler-link-{number}") for number in (1, 2)]
        line = r'^crawlstream_pages_total\{outcome="done",spider="link"\} (\S+)$'
        return sum(float(n) for text in texts for n in re.findall(line, text, re.MULTILINE))

    before = await crawled()
    async with serve(hosts=1, pages=5) as served:
        await cluster.run("crawl", served.web.seed_url, "--depth", "1")
        pages = len(served.truth(maxdepth=1).delivered)

    async def is_counted() -> bool:
        return await crawled() >= before + pages

    assert await wait_until(is_counted)

    async def is_told() -> bool:
        text = await metrics_of(cluster, "redis-monitor")
        return all(line in text for line in FIGURES)

    assert await wait_until(is_told, timeout_s=120)


_HTML = {"Accept": "text/html"}
"""Without it, ``/`` is the predecessor's JSON."""


async def test_every_screen_of_the_pictures_answers(
    serve: Serve, cluster: Cluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """Each picture has a screen that exists, so that it can be taken again at any time."""
    port = cluster.environment["CRAWLSTREAM_REST_PORT"]

    def answers(path: str) -> bool:
        try:
            page: bytes = urllib.request.urlopen(
                urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=_HTML), timeout=30
            ).read()
        except HTTPError as error:
            error.close()
            return False
        return b"<h1" in page

    async with serve(hosts=1, pages=5) as served:
        seed = served.web.seed_url
        witness.feed({"url": seed, "appid": APP, "crawlid": CRAWL})
        await witness.ended(CRAWL)
        for shot in shots(seed):

            async def is_there(shot: Shot = shot) -> bool:
                return any([await asyncio.to_thread(answers, path) for path in shot.paths])

            assert await wait_until(is_there), shot
