"""The servers of a local cluster: what they promise, and that they come back."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient
from redis.asyncio import Redis

from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.local import servers
from crawlstream_cli.local.classes import archive_classes
from crawlstream_cli.local.home import find_jars
from crawlstream_cli.local.probes import PROBES
from support.session.own import own_kafka_server, own_zookeeper_server
from support.waiting import wait_until

__all__ = ["own_kafka_server", "own_zookeeper_server"]


async def test_redis_keeps_every_write_and_evicts_nothing(redis: Redis) -> None:
    """Redis appends to its log every second and refuses writes rather than evict."""
    config = await redis.config_get("append*", "maxmemory-policy")
    assert config["appendonly"] == "yes"
    assert config["appendfsync"] == "everysec"
    assert config["maxmemory-policy"] == "noeviction"


async def test_redis_killed_comes_back_with_its_data(
    redis: Redis, redis_server: RunningServer
) -> None:
    """Records in Redis' log before a kill are there after the restart."""

    async def is_logged() -> bool:
        # A write waits for up to two seconds while the disk is busy with those before it.
        persistence = await redis.info("persistence")
        return bool(persistence["aof_buffer_length"] == 0)

    await redis.set("kept", "1")
    await wait_until(is_logged)
    redis_server.kill()
    redis_server.start()
    assert await redis.get("kept") == b"1"


@pytest.mark.parametrize("name", ["redis", "zookeeper", "kafka"])
async def test_a_frozen_server_does_not_answer(name: str, request: pytest.FixtureRequest) -> None:
    """A frozen server still accepts connections, and its probe is not fooled."""
    server: RunningServer = request.getfixturevalue(f"{name}_server")
    server.signal(signal.SIGSTOP)
    try:
        # Not all threads of a server stop in the same instant.
        await wait_until(lambda: not PROBES[name](server.port))
    finally:
        server.signal(signal.SIGCONT)
    server.wait_until_it_answers()


def test_kafka_makes_no_topic_by_itself(kafka_server: RunningServer, fresh_name: str) -> None:
    """Asking for an unknown topic does not create it with defaults."""
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{kafka_server.port}")
    try:
        admin.describe_topics([fresh_name])
        assert fresh_name not in admin.list_topics()
    finally:
        admin.close()


def formatted(folder: Path, jars: Path) -> str:
    """Format a Kafka: what Java prints about the classes that it loads for that."""
    server = servers.kafka(folder, port=1024, jars=jars)
    identity = "Ah8t4cqgTOOEQmR0DlkAcw"
    tool = ("kafka.tools.StorageTool", "format", "-t", identity, "-c", "conf/kafka.properties")
    return subprocess.run(
        [*server.argv[:2], "-Xlog:class+load", *tool],
        cwd=server.folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_java_loads_kafka_from_an_archive_of_its_classes(tmp_path: Path) -> None:
    """The bootstrap script makes the archive, once; one that does not fit is ignored."""
    jars, archive = find_jars(), servers.class_archive(find_jars())
    archive_classes(jars)
    made = archive.stat().st_mtime_ns
    archive_classes(jars)
    assert archive.stat().st_mtime_ns == made
    assert "kafka.server.KafkaConfig source: shared objects file (top)" in formatted(
        tmp_path / "one", jars
    )
    for jar in jars.glob("*.jar"):
        (tmp_path / jar.name).symlink_to(jar)
    servers.class_archive(tmp_path).write_text("of another Java")
    assert "kafka.server.KafkaConfig source: file:" in formatted(tmp_path / "two", tmp_path)
