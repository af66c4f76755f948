"""Real servers for tests: on free ports, in a folder of their own, gone when pytest is gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crawlstream.cli import servers
from crawlstream.cli.home import find_jars
from crawlstream.cli.ports import free_block
from crawlstream.cli.probes import PROBES
from crawlstream.cli.servers import Server
from crawlstream.cli.tether import die_with_parent

_START_TIMEOUT_S = 60
_QUICK_START = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""Tests end before the JVM's better compiler would pay."""


class RunningServer:
    """A server that a test may kill, freeze and start again; it keeps its port and its data."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.port = server.port
        self.log = server.folder / f"{server.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the server as it runs now."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it answers."""
        assert self._process is None or self._process.poll() is not None, "it is running"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.server.argv,
                cwd=self.server.folder,
                env={**os.environ, **_QUICK_START},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A Ctrl-C meant for pytest would stop the servers under its feet.
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509  no thread holds a lock
            )
        self.wait_until_it_answers()

    def wait_until_it_answers(self) -> None:
        """Return when the server answers; fail with the end of its log when it does not."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not PROBES[self.server.name](self.port):
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = self.log.read_text(errors="replace")[-2000:]
                raise AssertionError(f"{self.server.name} did not start:\n{tail}")
            time.sleep(0.05)

    def signal(self, how: signal.Signals) -> None:
        """Send a signal: STOP freezes the server, CONT thaws it."""
        os.kill(self.pid, how)

    def kill(self) -> None:
        """End the server as a power cut of the process would, and wait for its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


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
