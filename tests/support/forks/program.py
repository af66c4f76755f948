"""Programs of this project as forks of one process that has imported them: they start at once.

Each reads the environment and the path that it is given by itself, has a log, a session and a
folder of its own as if it had been started, ends with the tests, and is killed and frozen like any
process.
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

from crawlstream_chaos.processes import LoggedCrawler, Program, RunningProcess
from support.forks.child import Begun, be

PRELOADED = (
    # It takes longer the more there is.
    "scrapy.core.downloader.handlers.http11",
    *("lxml.html", "psycopg", "rich.console", "scrapy.crawler", "twisted.web.client", "typer"),
    *("crawling.project", "crawling.render.chromium", "crawling.runtime.worker"),
    *("kafka_monitor.process", "pipeline_service.process", "pipeline_service.commands.pages"),
    *("redis_monitor.process", "rest_service.process"),
    *("scrapy.pqueues", "scrapy.squeues"),
    *("crawling.spiders.sitemap", "crawling.spiders.wandering", "uvloop"),
    *("pipeline_service.commands.check", "pipeline_service.commands.preview"),
    *("pipeline_service.commands.query", "pipeline_service.commands.schema"),
    *("pipeline_service.commands.second_chances", "crawlstream_cli.app", "crawlstream_cli.crawls"),
    *("crawlstream_cli.crawl.command", "crawlstream_cli.feed", "crawlstream_cli.steer"),
    *("crawlstream_cli.dump", "crawlstream_cli.rules.throttle"),
)
"""Modules that take long to import, with all that these import. That installs no reactor and reads
nothing of the environment, but for the failpoint, which a fork sets up again; and it starts no
thread, as pyarrow and numpy do."""
_NOT_SHADOWED = (
    *("crawling", "crawlstream", "crawlstream_cli", "kafka_monitor", "pipeline_service"),
    *("redis_monitor", "rest_service", "sitecustomize.py"),
)
"""Names that no folder on PYTHONPATH may have: an interpreter would find it, a fork would not."""
_EXECUTED = frozenset({"PYTHONWARNINGS", "PYTHONUNBUFFERED", "PYTHONDEVMODE", "PYTHONHASHSEED"})
"""Variables that an interpreter reads when it starts."""
_turn = threading.Lock()
"""The exit code of a fork can be read once, and starting another one reads those of all."""


def begin(program: Begun) -> ForkServerProcess:
    """A process that runs a program."""
    for file in (program.out, program.err):
        Path(file).touch()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED])
    process = context.Process(target=be, args=[program], daemon=True)
    with _turn:
        process.start()
    return process


def can_fork(env: Mapping[str, str], folder: Path) -> bool:
    """Return whether an interpreter of this environment would be like this one, with its packages.

    ``folder``: where it is started.
    """
    folders = [folder / each for each in env.get("PYTHONPATH", "").split(os.pathsep) if each]
    return all(env.get(name) == os.environ.get(name) for name in _EXECUTED) and not any(
        (folder / name).exists() for folder in folders for name in _NOT_SHADOWED
    )


def run(
    *argv: str, env: Mapping[str, str], folder: Path, timeout_s: float, safe_path: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a module to its end, as ``python -m`` does, or ``python -P -m``; TimeoutExpired."""
    if not can_fork(env, folder):
        option, kept = "-Pm" if safe_path else "-m", dict(env)
        command = [sys.executable, option, *argv]
        return subprocess.run(
            command,
            env=kept,
            cwd=folder,
            timeout=timeout_s,
            capture_output=True,
            text=True,
            check=False,
        )
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place) / "out", Path(place) / "err"
        program = Begun(argv, dict(env), str(folder), str(out), str(err), safe_path)
        process = _Fork(begin(program))
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(argv, code, out.read_text(), err.read_text())


class Forked(Program):
    """A module that is run as ``python -m`` runs it."""

    def _begin(self) -> RunningProcess:
        python, option, *argv = self._argv
        assert (python, option) == (sys.executable, "-m")
        folder, log = self._folder or Path.cwd(), str(self.log)
        if not can_fork(self._env, folder):
            return super()._begin()
        return _Fork(begin(Begun(argv, dict(self._env), str(folder), log, log)))


class ForkedCrawler(Forked, LoggedCrawler):
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
        """Wait for its exit code, and return it; TimeoutExpired."""
        connection.wait([self._process.sentinel], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return code

    def kill(self) -> None:
        """End it as the kernel would."""
        self._process.kill()
