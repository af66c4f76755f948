"""Commands where no cluster runs: one sentence that says what is missing, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from crawlstream.bus import connect
from crawlstream.zoo import node
from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.app import run
from support.bus.pipe import LEAVES_SOCKETS

pytest_plugins = ["support.bus.fixtures"]

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
    """A user who has forgotten to start a cluster reads how; errors of libraries stay inside."""
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


@pytest.fixture
def empty_redis(
    redis_server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Redis]:
    """A Redis without anything, which commands take for the cluster's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRAWLSTREAM_HOME", str(tmp_path))
    monkeypatch.setenv("REDIS_HOST", "127.0.0.1")
    monkeypatch.setenv("REDIS_PORT", str(redis_server.port))
    with Redis(port=redis_server.port) as redis:
        redis.flushall()
        yield redis
        redis.config_set("requirepass", "")


@pytest.mark.usefixtures("empty_redis")
def test_a_redis_that_is_empty_is_not_told_to_be_away(capsys: pytest.CaptureFixture[str]) -> None:
    """It says what it lacks, and who will restore it."""
    assert run(["throttle", "show", "example.com"]) == 1
    assert "stores no crawls: it is new, or was emptied." in capsys.readouterr().err


def test_a_redis_that_refuses_us_is_not_told_to_be_away(
    empty_redis: Redis, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which settings are to be looked at."""
    empty_redis.config_set("requirepass", "right")
    monkeypatch.setenv("REDIS_PASSWORD", "wrong")
    assert run(["throttle", "show", "example.com"]) == 1
    assert "rejects the credentials: set REDIS_PASSWORD" in capsys.readouterr().err
