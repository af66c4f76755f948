"""Commands where no cluster runs: one sentence that says what is missing, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlstream.bus import connect
from crawlstream.cli.app import run
from crawlstream.throttle import node
from support.bus_pipe import LEAVES_SOCKETS

pytest_plugins = ["support.bus_fixtures"]

pytestmark = LEAVES_SOCKETS

_VARIABLES = {"Kafka": "KAFKA_HOSTS", "ZooKeeper": "ZOOKEEPER_HOSTS", "Redis": "REDIS_HOST"}


@pytest.mark.parametrize(
    ("words", "service"),
    [
        (["info", "some"], "Kafka"),
        (["rejected", "list"], "Kafka"),
        (["dump", "crawled"], "Kafka"),
        (["recover", "--dry-run"], "Kafka"),
        (["throttle", "get"], "ZooKeeper"),
        (["throttle", "show", "example.com"], "Redis"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else value,
)
def test_a_service_that_is_away_is_told_with_a_remedy(
    words: list[str],
    service: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever has forgotten to start a cluster reads how; what libraries raise stays inside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRAWLSTREAM_HOME", str(tmp_path))
    monkeypatch.setenv("KAFKA_HOSTS", "127.0.0.1:1")
    monkeypatch.setenv("ZOOKEEPER_HOSTS", "127.0.0.1:1")
    monkeypatch.setenv("REDIS_HOST", "127.0.0.1")
    monkeypatch.setenv("REDIS_PORT", "1")
    monkeypatch.setattr(connect, "BOOTSTRAP_TIMEOUT_MS", 300)
    monkeypatch.setattr(node, "_CONNECT_TIMEOUT_S", 0.3)
    assert run(words) == 1
    assert capsys.readouterr().err == (
        f"crawlstream: {service} does not answer at 127.0.0.1:1:"
        f" start a cluster with `./crawlstream up -d`, or set {_VARIABLES[service]}\n"
    )
