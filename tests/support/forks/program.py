"""Our programs as forks of one process that has imported the libraries, so that they begin at once.

What is ours each imports itself, with the environment and the path that it is given. It has a log,
a session and a folder of its own as if it had been started, ends with the tests, and is killed and
frozen like any process.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from crawlstream.chaos.processes import Crawler, Program, Running
from support.forks.child import Begun, be

LIBRARIES = (
    *("fastapi", "jsonschema", "kafka", "kazoo.client", "lxml.html", "prometheus_client"),
    *("psycopg", "pydantic_settings", "re2", "redis.asyncio", "rich.console", "scrapy.crawler"),
    *("structlog", "tldextract", "twisted.web.client", "typer", "uvicorn", "uvloop", "w3lib.url"),
)
"""What takes long to import and reads nothing of the environment."""
_EXECUTED = frozenset({"PYTHONWARNINGS", "PYTHONUNBUFFERED", "PYTHONDEVMODE", "PYTHONHASHSEED"})
"""What an interpreter reads when it begins."""
_turn = threading.Lock()
"""The exit code of a fork can be read once, and whoever begins another one looks at all of them."""


def begin(program: Begun) -> ForkServerProcess:
    """A process that runs a program."""
    for file in (program.out, program.err):
        Path(file).touch()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*LIBRARIES])
    process = context.Process(target=be, args=[program], daemon=True)
    with _turn:
        process.start()
    return process


def can_fork(env: Mapping[str, str]) -> bool:
    """Whether an interpreter of this environment would not be another one than ours."""
    return all(env.get(name) == os.environ.get(name) for name in _EXECUTED)


def run(
    *argv: str, env: Mapping[str, str], folder: Path, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a module to its end, as ``python -m`` does; TimeoutExpired."""
    assert can_fork(env)
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place) / "out", Path(place) / "err"
        process = _Fork(begin(Begun(argv, dict(env), str(folder), str(out), str(err))))
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(argv, code, out.read_text(), err.read_text())


class Forked(Program):
    """A module that is run as ``python -m`` runs it."""

    def _begin(self) -> Running:
        python, option, *argv = self._argv
        assert (python, option) == (sys.executable, "-m")
        if not can_fork(self._env):
            return super()._begin()
        folder, log = str(self._folder or Path.cwd()), str(self.log)
        return _Fork(begin(Begun(argv, dict(self._env), folder, log, log)))


class ForkedCrawler(Forked, Crawler):
    """A crawler."""


class _Fork:
    """A process that was forked, with the hands of one that was started."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        with _turn:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The same, waited for; TimeoutExpired."""
        connection.wait([self._process.sentinel], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return code

    def kill(self) -> None:
        """End it as the kernel would."""
        self._process.kill()
