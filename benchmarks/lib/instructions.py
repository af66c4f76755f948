"""Instructions of a piece of work, counted by valgrind: they do not depend on what else runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from lib.processes import python_path

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


def counted(work: Callable[[], object], times: int) -> None:
    """Do some work under valgrind, and have it counted: not the first time, which fills caches."""
    work()
    _switch("on")
    for _ in range(times):
        work()
    _switch("off")


def _switch(word: str) -> None:
    argv = ["callgrind_control", "-i", word, str(os.getpid())]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
