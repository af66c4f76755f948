"""A frontier belongs to one cluster: processes of another do not begin to work on it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import topic_id_of
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.sink import KafkaSink
from crawlstream.errors import RedisUnavailable
from crawlstream_chaos.processes import Program
from crawlstream_cli.local.ports import free_block
from crawlstream_frontier.opening.identity import join_cluster
from crawlstream_frontier.opening.servers import open_frontiers
from kafka_monitor.recovery import Recovery
from kafka_monitor.rejections import RejectionPublisher
from kafka_monitor.schedule_memory import ScheduleMemory
from support.monitors import MonitorCluster, MonitorProcess
from support.waiting import WaitUntil

PIPELINES = """
[pipeline.one]
sink = {{ kind = "files", path = "{folder}" }}
"""

Run = Callable[[MonitorCluster, Path, str], AbstractContextManager[Program]]


@contextmanager
def kafka_monitor(cluster: MonitorCluster, _: Path, prefix: str) -> Iterator[MonitorProcess]:
    """Run a kafka-monitor of another prefix."""
    with cluster.kafka_monitor(KAFKA_TOPIC_PREFIX=prefix) as process:
        yield process


@contextmanager
def redis_monitor(cluster: MonitorCluster, _: Path, prefix: str) -> Iterator[MonitorProcess]:
    """Run a redis-monitor of another prefix."""
    with cluster.redis_monitor(KAFKA_TOPIC_PREFIX=prefix) as process:
        yield process


@contextmanager
def rest(cluster: MonitorCluster, home: Path, prefix: str) -> Iterator[MonitorProcess]:
    """Run a REST service of another prefix."""
    ports = {"CRAWLSTREAM_REST_PORT": str(free_block(1)), "CRAWLSTREAM_METRICS_PORT": "0"}
    env = {**cluster.env, **ports, "KAFKA_TOPIC_PREFIX": prefix}
    process = MonitorProcess("rest_service", env=env, log=home / "rest.log")
    with process.running():
        yield process


@contextmanager
def pipeline(cluster: MonitorCluster, home: Path, prefix: str) -> Iterator[MonitorProcess]:
    """Run a pipeline of another prefix."""
    file = home / "pipelines.toml"
    file.write_text(PIPELINES.format(folder=home / "out"))
    with cluster.pipelines(file, KAFKA_TOPIC_PREFIX=prefix) as process:
        yield process


@contextmanager
def crawler(cluster: MonitorCluster, _: Path, prefix: str) -> Iterator[Program]:
    """Run a crawler of another prefix."""
    with cluster.crawler("link", KAFKA_TOPIC_PREFIX=prefix) as process:
        yield process


def command(cluster: MonitorCluster, *arguments: str, **env: str) -> tuple[int, str]:
    """Run a command; its exit code and all that it has printed."""
    done = subprocess.run(
        [sys.executable, "-m", "crawlstream_cli", *arguments],
        env={**cluster.env, **env, "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


async def noted(redis: Redis, cluster: MonitorCluster) -> list[str]:
    """Whose the frontier is: its prefix, and its node in ZooKeeper; what is not noted is empty."""
    values = await redis.hmget(cluster.keys.meta(), ["prefix", "node"])
    return [value.decode() if isinstance(value, bytes) else "" for value in values]


async def lose(redis: Redis, cluster: MonitorCluster) -> None:
    """Delete all that Redis has of the cluster."""
    async for key in redis.scan_iter(match=f"{{{cluster.prefix}0}}*"):
        await redis.delete(key)


@pytest.mark.parametrize("run", [kafka_monitor, redis_monitor, crawler, rest, pipeline])
async def test_a_process_of_another_prefix_ends_with_2(
    cluster: MonitorCluster, redis: Redis, tmp_path: Path, run: Run
) -> None:
    """A sentence names both prefixes and the remedy; the notes in Redis stay.

    No topic is created under a wrong prefix.
    """
    meta = cluster.keys.meta()
    await redis.hset(meta, mapping={"layout": "1", "prefix": cluster.prefix})
    with run(cluster, tmp_path, "other") as process:
        assert process.wait(60) == 2
        told = process.logged()
    assert f"KAFKA_TOPIC_PREFIX: other here, but the frontier {cluster.prefix} in Redis" in told
    assert f"belongs to a cluster with {cluster.prefix}:" in told
    assert "CRAWLSTREAM_NAMESPACE of its own" in told
    assert "Traceback" not in told, told
    assert await redis.hget(meta, "prefix") == cluster.prefix.encode()
    topics = KafkaAdminClient(bootstrap_servers=cluster.kafka_hosts).list_topics()
    assert not [topic for topic in topics if topic.startswith("other.")]


async def test_a_cluster_changes_by_a_command(
    cluster: MonitorCluster, redis: Redis, wait_until: WaitUntil
) -> None:
    """An older frontier is adopted without a word; another prefix needs `adopt` later.

    Comparing is reading, of a Redis that accepts no writes, too. `adopt` refuses while a process
    works with the values of before.
    """
    meta = cluster.keys.meta()
    await redis.hdel(meta, "prefix")
    await redis.config_set("min-replicas-to-write", 1)
    try:
        code, told = command(cluster, "info", KAFKA_TOPIC_PREFIX="other")
    finally:
        await redis.config_set("min-replicas-to-write", 0)
    assert code == 0, told
    assert not await redis.hexists(meta, "prefix")
    with cluster.kafka_monitor() as first, cluster.redis_monitor() as second:
        await wait_until(lambda: first.starts() == second.starts() == 1, timeout_s=60)
        assert await noted(redis, cluster) == [cluster.prefix, cluster.settings().throttle_path]
        code, told = command(cluster, "info", KAFKA_TOPIC_PREFIX="other")
        assert code == 2
        assert "run `crawlstream adopt`" in told
        code, told = command(cluster, "adopt", ZOOKEEPER_ID="other")
        assert code == 2
        assert "stop them first" in told
        assert (first.stop(), second.stop()) == (0, 0)
    code, told = command(cluster, "adopt", ZOOKEEPER_ID="other")
    assert code == 0, told
    with cluster.redis_monitor() as old:
        assert old.wait(60) == 2
        assert "ZOOKEEPER_ASSIGN_PATH and ZOOKEEPER_ID:" in old.logged()
    with cluster.redis_monitor(ZOOKEEPER_ID="other") as renamed:
        await wait_until(lambda: renamed.starts() == 1, timeout_s=60)


async def test_what_comes_after_a_loss_is_the_same_clusters(
    cluster: MonitorCluster, redis: Redis, wait_until: WaitUntil
) -> None:
    """A kafka-monitor that restores an emptied Redis notes whose it is before others look."""
    with cluster.kafka_monitor() as monitor:
        await wait_until(lambda: monitor.starts() == 1, timeout_s=60)
        await lose(redis, cluster)
        cluster.feed_in_order("lost", {"url": "http://127.0.0.1/", "appid": "a", "crawlid": "lost"})

        async def is_noted() -> bool:
            return (await noted(redis, cluster))[0] == cluster.prefix

        await wait_until(is_noted, timeout_s=60)


async def test_a_note_that_failed_after_a_loss_is_made_up_for(
    cluster: MonitorCluster, redis: Redis
) -> None:
    """Redis may go away just when the frontier is back, and its cluster is not known yet."""
    await lose(redis, cluster)
    kafka, settings = Kafka([cluster.kafka_hosts]), cluster.settings()
    away = settings.model_copy(update={"redis_port": 1})
    async with (
        open_frontiers(settings) as frontiers,
        open_frontiers(away) as nowhere,
        KafkaSink(kafka) as sink,
    ):
        root = frontiers.root
        left = [frontiers, nowhere]

        async def join() -> None:
            await join_cluster(settings, left.pop())

        recovery = Recovery(
            root.positions,
            sink,
            cluster.topics,
            rejects=RejectionPublisher(Outbound(sink, cluster.topics)),
            kafka=kafka,
            group=cluster.prefix,
            schedules=ScheduleMemory(root.schedules, kafka, cluster.topics),
            join=join,
        )
        topic_id = await topic_id_of(kafka, cluster.topics.incoming)
        with pytest.raises(RedisUnavailable):
            await recovery.locate(topic_id, 0)
        assert await noted(redis, cluster) == ["", ""]
        await recovery.locate(topic_id, 0)
        assert (await noted(redis, cluster))[0] == cluster.prefix


async def test_where_there_is_no_frontier_nothing_is_adopted(
    cluster: MonitorCluster, redis: Redis
) -> None:
    """The first process that works on it will decide."""
    code, told = command(cluster, "adopt", CRAWLSTREAM_NAMESPACE="nothing_here")
    assert code == 1, told
    assert "stores no crawls: it is new" in told
    assert not await redis.exists("{nothing_here0}m")
