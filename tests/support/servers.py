"""Real servers for tests: on free ports, in a folder of their own, gone when pytest is gone."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crawlstream.local import servers
from crawlstream.local.home import find_jars
from crawlstream.local.ports import free_block
from crawlstream.local.probes import PROBES
from crawlstream.local.servers import Server
from support.program import Program

_START_TIMEOUT_S = 60
_QUICK_START = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""Tests end before the JVM's better compiler would pay."""


class RunningServer(Program):
    """A server that a test may kill, freeze and start again; it keeps its port and its data."""

    def __init__(self, server: Server) -> None:
        super().__init__(
            *server.argv,
            env={**os.environ, **_QUICK_START},
            log=server.folder / f"{server.name}.log",
            folder=server.folder,
        )
        self.server = server
        self.port = server.port

    def start(self) -> None:
        """Start the server and wait until it answers."""
        super().start()
        self.wait_until_it_answers()

    def wait_until_it_answers(self) -> None:
        """Return when the server answers; fail with the end of its log when it does not."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not PROBES[self.server.name](self.port):
            if not self.is_running() or time.monotonic() > deadline:
                raise AssertionError(f"{self.server.name} did not start:\n{self.logged()[-2000:]}")
            time.sleep(0.05)


@contextmanager
def running(server: Server) -> Iterator[RunningServer]:
    """Run a server for the length of the block."""
    if shutil.which(server.argv[0]) is None:
        raise AssertionError(f"{server.argv[0]} is missing: start the tests by ./crawlstream test")
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
