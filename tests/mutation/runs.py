"""Runs of the tests of the frontier, each in a process that has them loaded when it begins."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from mutation.mutants import Mutant
from mutation.order import RANDOM

_ROOT = Path(__file__).parent.parent.parent
_OF_PYTHON = {"frontier/test_planted.py", "throttle/test_edit.py", "throttle/test_watch.py"}
"""Tests that change the Lua themselves, and tests that need ZooKeeper."""
_FOLDER = _ROOT / "tests/integration"
_TESTS = [
    path.relative_to(_ROOT).as_posix()
    for pattern in ("frontier/**/test_*.py", "throttle/test_*.py", "crawler/test_robots_book.py")
    for path in sorted(_FOLDER.glob(pattern))
    if path.relative_to(_FOLDER).as_posix() not in _OF_PYTHON
]
_LIVES, _MORE_LIVES = 20, 80
_OPTIONS = ("-x", "-q", "-n", "0", "-p", "mutation.plugin", "--rootdir", str(_ROOT))


@dataclass(frozen=True)
class Run:
    """The outcome of a mutant."""

    red: str
    """The first test that was red; empty: none was."""
    seconds: Mapping[str, float]
    took_s: float

    def then(self, later: Run) -> Run:
        """This one, which was green, and another."""
        return Run(later.red, self.seconds, self.took_s + later.took_s)


class _Names:
    """A plugin of pytest that knows what was collected."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the names of all tests."""
        self.all = [item.nodeid for item in session.items]


def collect() -> list[str]:
    """Load all tests, so that those who run them need not; answers their names.

    All but the random lives, which read the environment when they are loaded.
    """
    os.chdir(_ROOT)
    names = _Names()
    with _Silence():
        tests = [test for test in _TESTS if test != RANDOM]
        pytest.main([*_OPTIONS, "--collect-only", *tests], plugins=[names])
    return [f"{RANDOM}::test_random_lives_agree_with_the_model", *names.all]


def run(mutant: Mutant | None, order: list[str] | None, *, more_lives: bool = False) -> Run:
    """Run the tests with a mutant in place, in an order, until one is red."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        environment = {
            "MUTANT": json.dumps(mutant) if mutant else "",
            "ORDER": json.dumps(order) if order else "",
            "TOLD": str(told),
            "FRONTIER_FIRST_SEED": str(_LIVES if more_lives else 0),
            "FRONTIER_SEEDS": str(_MORE_LIVES if more_lives else _LIVES),
        }
        tests = [RANDOM] if more_lives else _TESTS
        process = multiprocessing.get_context("fork").Process(
            target=_child, args=(environment, tests)
        )
        process.start()
        process.join()
        _end(process.pid)
        lines = told.read_text().splitlines() if told.exists() else []
    results = [json.loads(line) for line in lines]
    red = next((name for name, passed, _ in results if not passed), "")
    if process.exitcode and not red:
        red = f"exit {process.exitcode}"
    return Run(red, {name: took for name, _, took in results}, time.monotonic() - began)


def _child(environment: dict[str, str], tests: list[str]) -> None:
    os.setsid()
    os.environ.update(environment)
    with _Silence():
        code = pytest.main([*_OPTIONS, *tests])
    os._exit(code)


def _end(leader: int | None) -> None:
    """A server whose script never ends obeys only SIGKILL."""
    with suppress(ProcessLookupError):
        if leader:
            os.killpg(leader, signal.SIGKILL)


class _Silence:
    """The output of pytest is not read."""

    def __enter__(self) -> None:
        self._kept = os.dup(1), os.dup(2)
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)

    def __exit__(self, *_: object) -> None:
        for number, kept in enumerate(self._kept, 1):
            os.dup2(kept, number)
            os.close(kept)
