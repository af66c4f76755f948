"""Processes that can be ended in every way, frozen, and started again: servers, crawlers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from crawlstream.errors import SetupError
from crawlstream_cli.local.probes import PROBES
from crawlstream_cli.local.servers import LocalServer
from crawlstream_extract.workers.tether import die_with_parent

_START_TIMEOUT_S = 240
"""Seconds to wait for the start, also on a busy machine; not for a process that has ended."""
_FREEZE_S = 30
_LOOK_S = 0.002
_FROZEN = {"T", "t", "X", "Z"}
"""States of a thread in ``/proc`` (proc_pid_stat(5)): stopped, traced, dead."""


def freeze(pid: int) -> None:
    """Stop a process, and wait until none of its threads runs; TimeoutError.

    The kernel stops them when one of them is next on a CPU: on a busy machine the others may answer
    for some milliseconds more.
    """
    os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + _FREEZE_S
    while not _is_frozen(pid):
        if time.monotonic() > until:
            raise TimeoutError(f"process {pid} does not stop")
        time.sleep(_LOOK_S)


def _is_frozen(pid: int) -> bool:
    states = set[str]()
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # A thread may end meanwhile.
            states.add(thread.read_text().rpartition(")")[2].split()[0])
    return states <= _FROZEN


class RunningProcess(Protocol):
    """The part of :class:`subprocess.Popen` that is used here."""

    @property
    def pid(self) -> int:
        """Its number."""

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit code; subprocess.TimeoutExpired."""

    def kill(self) -> None:
        """End it as the kernel would."""


class Program:
    """A command that appends its output to a file, and ends with the process that started it."""

    def __init__(
        self, *argv: str, env: Mapping[str, str], log: Path, folder: Path | None = None
    ) -> None:
        self.log = log
        self._argv = argv
        self._env = env
        self._folder = folder
        self._process: RunningProcess | None = None

    def start(self) -> None:
        """Start it, or start it again."""
        if self.is_running():
            raise RuntimeError(f"{self._argv[0]} is running already")
        self._process = self._begin()

    def _begin(self) -> RunningProcess:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._argv,
                cwd=self._folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A Ctrl-C is for the program that started it, which ends it in its turn.
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509  no thread holds a lock
            )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run it for the length of the block."""
        self.start()
        try:
            yield
        finally:
            self.kill()

    @property
    def pid(self) -> int:
        """Process id of its latest start."""
        assert self._process is not None
        return self._process.pid

    @property
    def most_resident(self) -> int:
        """Bytes in RAM that it has had at most since its latest start."""
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1]) * 1024

    def is_running(self) -> bool:
        """Return whether it runs."""
        return self._process is not None and self._process.poll() is None

    def signal(self, how: signal.Signals) -> None:
        """Send a signal: STOP freezes it, CONT thaws it."""
        if how == signal.SIGSTOP:
            freeze(self.pid)
        else:
            os.kill(self.pid, how)

    def wait(self, timeout_s: float = 90) -> int:
        """Wait for its end; its exit code."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """End it as the kernel would, without a last word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def logged(self) -> str:
        """Everything that it has said so far."""
        return self.log.read_text(errors="replace")


class RunningServer(Program):
    """A server that may be killed, frozen and started again; it keeps its port and its data."""

    def __init__(self, server: LocalServer) -> None:
        super().__init__(
            *server.argv,
            env=os.environ,
            log=server.folder / f"{server.name}.log",
            folder=server.folder,
        )
        self.server = server
        self.port = server.port

    def start(self) -> None:
        """Start the server and wait until it answers; SetupError where it is not installed."""
        if shutil.which(self.server.argv[0]) is None:
            raise SetupError(
                f"{self.server.argv[0]} is not installed: start the command as ./crawlstream in the"
                " source checkout, which checks for it"
            )
        super().start()
        self.wait_until_it_answers()

    def answers(self) -> bool:
        """Return whether the server answers a request."""
        return PROBES[self.server.name.partition("-")[0]](self.port)

    def wait_until_it_answers(self) -> None:
        """Return when the server answers; SetupError with the end of its log when it does not."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self.answers():
            is_running = self.is_running()
            if not is_running or time.monotonic() > deadline:
                late = f"did not answer within {_START_TIMEOUT_S} s"
                why = late if is_running else "has exited at its start"
                raise SetupError(f"{self.server.name} {why}:\n{self.logged()[-2000:]}")
            time.sleep(0.05)


class LoggedCrawler(Program):
    """A crawler whose log is read as events."""

    def __init__(
        self, spider: str, env: Mapping[str, str], log: Path, *, scrapy: bool = False
    ) -> None:
        """``scrapy``: of the Scrapy project in the folder of the log."""
        ours, theirs = ("crawling", spider), ("scrapy", "crawl", spider)
        command = (sys.executable, "-m", *(theirs if scrapy else ours))
        super().__init__(*command, env=env, log=log, folder=log.parent)

    def events(self) -> list[dict[str, Any]]:
        """Return its logged events so far."""
        return [json.loads(line) for line in self.logged().splitlines() if line.startswith("{")]
