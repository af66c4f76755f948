"""A process that a test may end in every way, and start again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from crawlstream.local.tether import die_with_parent


class Program:
    """One command; what it says goes to the end of one file. It ends with the tests."""

    def __init__(
        self, *argv: str, env: Mapping[str, str], log: Path, folder: Path | None = None
    ) -> None:
        self.log = log
        self._argv = argv
        self._env = env
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, or start it again."""
        assert not self.is_running(), "it is running"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv,
                cwd=self._folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A Ctrl-C meant for pytest would stop it under the test's feet.
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
        """Of its latest start."""
        assert self._process is not None
        return self._process.pid

    @property
    def most_resident(self) -> int:
        """Bytes in RAM that it has had at most since its latest start."""
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1]) * 1024

    def is_running(self) -> bool:
        """Whether it lives."""
        return self._process is not None and self._process.poll() is None

    def signal(self, how: signal.Signals) -> None:
        """Send a signal: STOP freezes it, CONT thaws it."""
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
