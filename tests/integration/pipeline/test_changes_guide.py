"""The guide to changes, followed from its first line to its last: its files, and every command."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import sys
from pathlib import Path

import orjson

from crawlstream.model.crawl import CrawlKey
from crawlstream_chaos.processes import Program, RunningServer
from support.forks.program import Forked, run
from support.pipelines.cluster import PipelineCluster
from support.pipelines.results import record
from support.waiting import WaitUntil

GUIDE = (Path(__file__).parents[3] / "docs" / "changes.md").read_text(encoding="utf-8")
COMMANDS = [
    line for text in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL) for line in text.splitlines()
]
NEWS = CrawlKey("link", "news", "front-page")
URL = "https://example.com/"
_PORT = "8000"


def block(language: str, port: int) -> str:
    """The one piece of code of the guide in a language, with a port that is free here."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    assert str(found).count(_PORT) == 1
    return str(found).replace(_PORT, str(port))


def page(number: int, text: str) -> bytes:
    """A result of a page, that number of minutes after the first."""
    at = 1_795_251_154.0 + 60 * number
    return record(number, crawl=NEWS, url=URL, response_url=URL, timestamp=at, body=text.encode())


async def test_the_guide_to_changes_works(
    kafka_server: RunningServer,
    redis_server: RunningServer,
    fresh_name: str,
    tmp_path: Path,
    wait_until: WaitUntil,
) -> None:
    """The receiver prints a new page, and then the line that has changed; Kafka has both events."""
    cluster = PipelineCluster(kafka_server, redis_server, prefix=fresh_name, home=tmp_path)
    await cluster.make_topics()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    cluster.file.write_text(block("toml", port))
    (tmp_path / "receiver.py").write_text(block("python", port))
    exports, receive, check, work, dump = (shlex.split(line) for line in COMMANDS)
    assert exports.pop(0) == "export"
    env = {**cluster.env, **dict(each.split("=", 1) for each in exports)}

    checked = run("crawlstream_cli", *check[1:], env=env, folder=tmp_path, timeout_s=120)
    assert checked.returncode == 0, checked.stderr
    assert receive == ["python3", "receiver.py"]
    out = tmp_path / "receiver.log"
    receiver = Program(sys.executable, receive[1], env=env, log=out, folder=tmp_path)
    argv = (sys.executable, "-m", "crawlstream_cli", *work[1:])
    pipeline = Forked(*argv, env=env, log=tmp_path / "run.log", folder=tmp_path)
    with receiver.running(), pipeline.running():
        cluster.feed([page(0, "<p>Lamp<p>14.00")], key=b"one")
        await wait_until(lambda: f"new {URL} None\n" in out.read_text())
        cluster.feed([page(1, "<p>Lamp<p>12.50")], key=b"one")
        hunk = "@@ -1,3 +1,3 @@\n Lamp\n \n-14.00\n+12.50\n"
        await wait_until(lambda: f"changed {URL} {hunk}" in out.read_text())
        pipeline.signal(signal.SIGTERM)
        assert pipeline.wait() == 0
    dumped = run("crawlstream_cli", *dump[1:], env=env, folder=tmp_path, timeout_s=120)
    told = [orjson.loads(line) for line in dumped.stdout.splitlines() if '"page_changed"' in line]
    assert [each["change"] for each in sorted(told, key=lambda each: each["at"])] == [
        "new",
        "changed",
    ]
