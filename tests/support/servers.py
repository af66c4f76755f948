"""Real servers for tests: on free ports, in a folder of their own, gone when pytest is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.local import servers
from crawlstream_cli.local.home import find_jars
from crawlstream_cli.local.ports import free_block
from crawlstream_cli.local.servers import LocalServer


@contextmanager
def running(server: LocalServer) -> Iterator[RunningServer]:
    """Run a server for the length of the block."""
    running_server = RunningServer(server)
    try:
        running_server.start()
        yield running_server
    finally:
        running_server.kill()


@contextmanager
def redis(folder: Path) -> Iterator[RunningServer]:
    """Run a Redis whose data lives in ``folder``."""
    with running(servers.redis(folder, port=free_block(1), max_memory=1 << 30)) as server:
        yield server


@contextmanager
def zookeeper(folder: Path) -> Iterator[RunningServer]:
    """Run a ZooKeeper whose data lives in ``folder``."""
    with running(servers.zookeeper(folder, port=free_block(1), jars=find_jars())) as server:
        yield server


@contextmanager
def kafka(folder: Path) -> Iterator[RunningServer]:
    """Run a Kafka whose data lives in ``folder``."""
    configured = servers.kafka(folder, port=free_block(2), jars=find_jars())
    servers.format_kafka(configured)
    with running(configured) as server:
        yield server
