"""Instructions of a piece of work, counted by valgrind: they do not depend on what else runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from lib.processes import python_path
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError as NoConnection

ARGUMENT = "--counted"
"""First of the arguments of a program that is counted."""
_OPTIONS = ("--tool=callgrind", "--instr-atstart=no")
_COLLECTED = re.compile(rb"Collected : (\d+)")
_TIMES = 500


def instructions(program: str, *work: str) -> float | None:
    """Return the instructions of one time of a program's work; None without valgrind.

    The program calls :func:`counted` when its arguments begin with ``ARGUMENT``.
    """
    if shutil.which("valgrind") is None:
        return None
    once, often = (_collected(program, times, work) for times in (0, _TIMES))
    return (often - once) / _TIMES


def _collected(program: str, times: int, work: tuple[str, ...]) -> int:
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        output = f"--callgrind-out-file={Path(folder, 'out')}"
        argv = ["valgrind", *_OPTIONS, output, sys.executable, "-P", program, ARGUMENT]
        done = subprocess.run(
            [*argv, str(times), *work],
            env=os.environ | {"PYTHONPATH": python_path("benchmarks"), "PYTHONHASHSEED": "0"},
            check=True,
            capture_output=True,
        )
    found = _COLLECTED.search(done.stderr)
    assert found, done.stderr
    return int(found[1])


async def redis_instructions(
    work: Callable[[Redis, Callable[[str], None]], Awaitable[int]],
) -> float | None:
    """Return the instructions of Redis for each of ``work``'s pages; None without valgrind.

    It gets a Redis, and switches the count ``on`` and ``off``; it returns the number of pages.
    """
    if shutil.which("valgrind") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        socket = str(Path(folder, "redis"))
        argv = ["valgrind", *_OPTIONS, f"--callgrind-out-file={Path(folder, 'out')}"]
        # The timer of Redis has work of its own, which does not belong to pages.
        options = ["--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder]
        options += ["--hz", "1", "--activerehashing", "no"]
        server = subprocess.Popen(
            [*argv, "redis-server", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            retry = Retry(ConstantBackoff(0.2), 100)
            redis = Redis(unix_socket_path=socket, retry=retry, retry_on_error=[NoConnection])
            pages = await work(redis, lambda word: _switch(word, server.pid))
            await redis.aclose()
        finally:
            server.terminate()
        found = _COLLECTED.search(server.communicate()[1])
    assert found
    return int(found[1]) / pages


def counted(work: Callable[[], object], times: int) -> None:
    """Do some work under valgrind, and have it counted: not the first time, which fills caches."""
    work()
    _switch("on")
    for _ in range(times):
        work()
    _switch("off")


def _switch(word: str, pid: int = 0) -> None:
    argv = ["callgrind_control", "-i", word, str(pid or os.getpid())]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
