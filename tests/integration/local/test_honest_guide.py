"""The guide to an honest crawler, followed from its first line to its last."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlstream.boot.variables import environment_without_settings
from crawlstream.model.words.price import Price
from crawlstream.signing import directory
from crawlstream.signing.signer import DIRECTORY_PATH
from crawlstream_chaos.laws.signatures import Verifier
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.scripted_site import HTML, Answer, CrawlerSite, serving
from crawlstream_cli.local.ports import Ports
from support.crawler.charging import ChargingSite
from support.crawler.tls import TlsSite, make_certificate
from support.forks.program import run

GUIDE = (Path(__file__).parents[3] / "docs" / "honest-crawler.md").read_text(encoding="utf-8")
COMMANDS = [
    line for text in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL) for line in text.splitlines()
]
CENT = Price("USD", 10_000)
PAGES = {
    "/robots.txt": Answer(b"User-agent: *\nDisallow: /private\n", headers={}),
    "/": Answer(
        b"<a href=/a>a</a><a href=/b>b</a><a href=/private>c</a><a rel=nofollow href=/d>d</a>"
    ),
    "/a": Answer(b"<p>secret", headers={**HTML, "X-Robots-Tag": "example-bot: noindex"}),
    "/b": Answer(b"<head><meta name=robots content=nofollow></head><body><a href=/e>e</a>"),
}


class Reader:
    """A reader who follows the guide, in an empty folder with a terminal."""

    def __init__(self, folder: Path, environment: dict[str, str], site: CrawlerSite) -> None:
        self.folder, self.environment, self.site = folder, environment, site
        self.here = {
            "https://bot.example.com": environment["AGENT"],
            "https://www.example.org": site.url(""),
            "https://www.example.net": site.url("", host="127.0.0.2"),
            "www.example.org": "127.0.0.1",
            "example.net": "127.0.0.2",
        }

    def types(self, command: str) -> str:
        """Type a line of the guide, about the sites as they are here: what it prints."""
        for there, here in self.here.items():
            command = command.replace(there, here)
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self.environment[name] = shlex.split(value)[0]
            return ""
        words = shlex.split(command.removeprefix("./crawlstream "))
        done = run(
            "crawlstream_cli",
            *words,
            env=self.environment,
            folder=self.folder,
            timeout_s=240,
            safe_path=True,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def results(self, name: str) -> dict[str, dict[str, object]]:
        """The results in a file, by path."""
        lines = (self.folder / name).read_text().splitlines()
        return {f"/{each['url'].rpartition('/')[2]}": each for each in map(json.loads, lines)}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[TlsSite]:
    """The host that vouches for the crawler."""
    with serving({}, kind=TlsSite) as agent:
        assert isinstance(agent, TlsSite)
        agent.certify(make_certificate(tmp_path))
        yield agent


@pytest.fixture
def reader(
    tmp_path: Path,
    agent: TlsSite,
    kafka_server: RunningServer,
    zookeeper_server: RunningServer,
    fresh_name: str,
) -> Iterator[Reader]:
    """Their cluster ends with the test."""
    (folder := tmp_path / "reader").mkdir()
    environment = {
        **environment_without_settings(os.environ),
        **Ports.free().variables(),
        "AGENT": agent.url("").rstrip("/"),
        "SSL_CERT_FILE": str(tmp_path / "site.pem"),
        "CRAWLSTREAM_HOME": str(tmp_path / "home"),
        "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
        "CRAWLSTREAM_FINISH_GRACE": "1",
        "QUEUE_HITS": "100",
        "QUEUE_WINDOW": "1",
        "KAFKA_HOSTS": f"127.0.0.1:{kafka_server.port}",
        "KAFKA_TOPIC_PREFIX": fresh_name,
        "ZOOKEEPER_ASSIGN_PATH": f"/{fresh_name}/",
        "ZOOKEEPER_HOSTS": f"127.0.0.1:{zookeeper_server.port}",
    }
    with serving(PAGES) as site:
        made = Reader(folder, environment, site)
        yield made
        made.types("./crawlstream down")


def _publish(reader: Reader, agent: TlsSite) -> dict[str, str]:
    """Publish the reader's directory; return its key by its id."""
    made = directory.read(reader.folder / "directory.json")
    agent.pages[DIRECTORY_PATH] = Answer(made.body.encode(), headers=made.headers)
    (jwk,) = json.loads(made.body)["keys"]
    return {jwk["kid"]: jwk["x"]}


def test_the_guide_to_an_honest_crawler_works(reader: Reader, agent: TlsSite) -> None:
    """Signs, obeys, pays, and shows it: each line of the guide in its order."""
    printed: dict[str, str] = {}
    for command in COMMANDS:
        if command.endswith("signing check"):
            keys = _publish(reader, agent)
            reader.site.pages["127.0.0.2/"] = ChargingSite({"/": CENT}, Verifier(keys))
        if " CRAWL " in command:
            reader.here["CRAWL"] = str(reader.results("pages.jsonl")["/"]["crawlid"])
        printed[command] = reader.types(command)

    verifier = Verifier(keys)
    for visit in reader.site.visits:
        verifier.verify(visit.headers, authority=visit.headers["host"], now=visit.at)
        assert "(+https://127.0.0.1:" in visit.headers["user-agent"]
    assert {visit.path for visit in reader.site.visits} == {"/robots.txt", "/", "/a", "/b"}
    assert (reader.folder / "www" / "http-message-signatures-directory").exists()
    pages = reader.results("pages.jsonl")
    assert {path: page.get("dropped") for path, page in pages.items()} == {
        "/": None,
        "/a": "noindex",
        "/b": None,
    }
    _read_by_the_program(reader.folder)
    (paid,) = reader.results("paid.jsonl").values()
    assert (paid["body"], paid["payment"]) == (
        "paid",
        {"price": None, "charged": str(CENT), "error": None, "purse": "news"},
    )
    told = {command.split()[1]: text for command, text in printed.items() if command[0] == "."}
    assert "robots" in told["failures"]
    assert "nofollow" in told["info"]
    assert "USD 0.01" in told["purse"]


def _read_by_the_program(folder: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    argv = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    count, asked, dropped, _busiest = done.stdout.splitlines()
    assert count == "3 pages, 3 signed"
    assert "'noindex': 1" in asked
    assert "'nofollow': 1" in asked
    assert dropped == "not kept: {'noindex': 1}"
