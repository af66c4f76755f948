"""The processes that a benchmark starts, and how they find one another."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import psutil
from redis.asyncio import Redis

from crawlstream.boot.local_note import repository
from crawlstream.bus.connect import Kafka
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.topics import ensure_topics
from crawlstream.keys import Topics
from crawlstream_cli.local import servers
from crawlstream_cli.local.home import find_jars
from crawlstream_cli.local.ports import free_block
from crawlstream_cli.local.probes import PROBES

TOPICS = Topics("bench")
CRAWLER = (sys.executable, "-P", "-m", "crawling", "link")
MONITOR = (sys.executable, "-P", "-m", "kafka_monitor", "run")
REDIS_MONITOR = (sys.executable, "-P", "-m", "redis_monitor")
SERVICE = (sys.executable, "-P", "-m", "rest_service")
SETTINGS = {
    "ROBOTSTXT_OBEY": "false",
    "LOG_LEVEL": "WARNING",
    "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
}
"""Settings that differ from the defaults in every process of the cluster."""


@contextmanager
def running(*argv: str, folder: str, **env: str) -> Iterator[int]:
    """A process for the length of the block: its id."""
    program = subprocess.Popen(
        argv, cwd=folder, env=os.environ | env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with program:
        try:
            yield program.pid
        finally:
            program.kill()


@asynccontextmanager
async def own_kafka(folder: str, *, partitions: int = 1, frontier: int = 1) -> AsyncIterator[str]:
    """Run a Kafka with the cluster's topics, for ``frontier`` partitions; yield its address."""
    server = servers.kafka(Path(folder), port=free_block(2), jars=find_jars())
    servers.format_kafka(server)
    with running(*server.argv, folder=folder):
        while not PROBES["kafka"](server.port):
            await asyncio.sleep(0.2)
        address = f"127.0.0.1:{server.port}"
        kafka_client = Kafka([address], shape=TopicShape(partitions=partitions))
        await ensure_topics(kafka_client, TOPICS, frontier)
        yield address


def environment(redis: Redis, kafka: str, folder: str) -> Mapping[str, str]:
    """Return the environment of a process of the cluster."""
    return {
        **SETTINGS,
        "REDIS_HOST": "127.0.0.1",
        "REDIS_PORT": str(redis.connection_pool.connection_kwargs["port"]),
        "KAFKA_HOSTS": kafka,
        "KAFKA_TOPIC_PREFIX": TOPICS.prefix,
        "CRAWLSTREAM_HOME": folder,
    }


def divided(found: Mapping[str, str], partitions: int) -> Mapping[str, str]:
    """Return the environment for a frontier of ``partitions`` in the one Redis."""
    return {
        **found,
        "CRAWLSTREAM_PARTITIONS": str(partitions),
    }


def plain_scrapy(
    spider: str,
    urls: Sequence[str],
    settings: Mapping[str, str],
    *,
    folder: str,
    name: str = "plain",
) -> Sequence[str]:
    """The command of plain Scrapy; ``spider`` is code that ends with the class of the spider."""
    code = Path(folder) / f"{name}.py"
    code.write_text(f"{spider}\n    start_urls = {list(urls)!r}\n")
    options = [part for each in settings.items() for part in ("-s", "=".join(each))]
    return (sys.executable, "-P", "-m", "scrapy", "runspider", code.name, *options)


def python_path(*folders: str) -> str:
    """PYTHONPATH with folders of the repository before what the environment says."""
    ours = [str(repository() / folder) for folder in folders]
    return os.pathsep.join(filter(None, (*ours, os.environ.get("PYTHONPATH"))))


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has taken so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
