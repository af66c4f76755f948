"""Processes that a person starts by hand, in a shell that was made for the whole cluster."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from crawlstream.boot.local_note import load_process_settings, repository, write_note
from crawlstream.boot.variables import environment_without_settings
from crawlstream.bus.connect import Kafka
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.topics import ensure_topics
from crawlstream.keys import Topics
from crawlstream.stats.heartbeat import living
from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.local.ports import free_block
from support.frontier.bench import KEYS

pytest_plugins = ["support.frontier.fixtures"]
CRAWLER = ("crawling", "link")
pytestmark = pytest.mark.usefixtures("bench")


@pytest.fixture
def taken() -> Iterator[int]:
    """A port with a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
async def environment(
    redis_server: RunningServer,
    kafka_server: RunningServer,
    fresh_name: str,
    taken: int,
    tmp_path: Path,
) -> Mapping[str, str]:
    """Variables of a cluster in which a metrics port is given that is taken."""
    kafka = f"127.0.0.1:{kafka_server.port}"
    shape = TopicShape(partitions=1, max_record_bytes=1 << 20)
    await ensure_topics(Kafka([kafka], shape=shape), Topics(fresh_name))
    return {
        **environment_without_settings(os.environ),
        "REDIS_HOST": "127.0.0.1",
        "REDIS_PORT": str(redis_server.port),
        "KAFKA_HOSTS": kafka,
        "KAFKA_TOPIC_PREFIX": fresh_name,
        "CRAWLSTREAM_HOME": str(tmp_path),
        "CRAWLSTREAM_METRICS_PORT": str(taken),
        "LOG_JSON": "true",
    }


@asynccontextmanager
async def started(
    environment: Mapping[str, str], *words: str, folder: Path | None = None
) -> AsyncIterator[Process]:
    """A process of crawlstream that is ended with the block."""
    argv = (sys.executable, "-P", "-m", *words)
    process = await asyncio.create_subprocess_exec(
        *argv, env=environment, cwd=folder, stderr=PIPE, stdout=DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.communicate(), 60)


async def line_with(process: Process, mark: str) -> Mapping[str, object]:
    """The first line of its log that has a mark."""
    assert process.stderr
    async with asyncio.timeout(60):
        async for line in process.stderr:
            if mark.encode() in line:
                told: Mapping[str, object] = json.loads(line)
                return told
    raise AssertionError(f"the process ended without {mark}")


async def test_a_crawler_takes_a_free_metrics_port(
    environment: Mapping[str, str], taken: int
) -> None:
    """Its log says which one, and its health is served there."""
    async with started(environment, *CRAWLER) as process:
        told = await line_with(process, "port_in_use")
        assert (told["asked"], told["level"]) == (taken, "info")
        reader, writer = await asyncio.open_connection("127.0.0.1", int(str(told["port"])))
        writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in await asyncio.wait_for(reader.readline(), 10)
        writer.close()


async def test_a_crawler_that_cannot_start_is_not_taken_for_living(
    environment: Mapping[str, str], redis: Redis
) -> None:
    """Supervised, it needs its own port: it ends with 2, and its heartbeat with it."""
    supervised = {**environment, "SUPERVISOR_ENABLED": "1"}
    async with started(supervised, *CRAWLER) as process:
        _, said = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 2, said
    assert b"is already in use" in said
    assert not await living(redis, KEYS)


@pytest.mark.parametrize(
    "words",
    [
        ("kafka_monitor", "run"),
        ("redis_monitor",),
        ("rest_service",),
        CRAWLER,
        ("scrapy", "crawl", "link"),
    ],
    ids=" ".join,
)
async def test_every_process_finds_the_cluster_of_its_home(
    environment: Mapping[str, str], redis: Redis, tmp_path: Path, *, words: tuple[str, ...]
) -> None:
    """CRAWLSTREAM_HOME is its only setting: it reports itself in the Redis of the note there."""
    names = ("REDIS_HOST", "REDIS_PORT", "KAFKA_HOSTS", "KAFKA_TOPIC_PREFIX")
    (tmp_path / "run").mkdir()
    write_note(tmp_path, {name: environment[name] for name in names})
    told = {name: text for name, text in environment.items() if name not in names}
    told |= {"CRAWLSTREAM_METRICS_PORT": "0", "CRAWLSTREAM_REST_PORT": str(free_block(1))}
    async with started(told, *words, folder=repository() / "crawler") as process:
        await asyncio.wait_for(_reported(redis, process), 60)


async def _reported(redis: Redis, process: Process) -> None:
    while process.pid not in [each.pid for each in await living(redis, KEYS)]:
        assert process.returncode is None
        await asyncio.sleep(0.1)


def test_what_is_named_wins_over_the_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the environment, then ``.env``, then the cluster of the home; REST's port is none."""
    (tmp_path / "run").mkdir()
    names = ("KAFKA_HOSTS", "ZOOKEEPER_HOSTS", "KAFKA_TOPIC_PREFIX", "CRAWLSTREAM_REST_PORT")
    note = dict.fromkeys(names[:2], "note:1") | {names[2]: "note", names[3]: "7"}
    write_note(tmp_path, note)
    for name in (*names, "CRAWLSTREAM_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(f"CRAWLSTREAM_HOME={tmp_path}\nZOOKEEPER_HOSTS=file:1\n")
    monkeypatch.setenv("KAFKA_HOSTS", "shell:1")
    settings = load_process_settings()
    assert settings.kafka_hosts == ("shell:1",)
    assert settings.zookeeper_hosts == ("file:1",)
    assert (settings.kafka_topic_prefix, settings.rest_port) == ("note", 5343)
