"""A plugin of pytest: the scripts of this run are those of one mutant, and its tests have an order.

The environment tells which. MUTANT: a JSON list of file, line, right and wrong text; without it
nothing is wrong. ORDER: a JSON list of tests; the others are left out. TOLD: the file that hears, a
JSON line each, of tests that are over: name, whether it passed, how long it took. A test that takes
PATIENCE_S longer than it has to ends the process.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlstream.frontier import scripts
from mutation.mutants import LUA, Mutant

PATIENCE_S = 60
HUNG = 70
"""The exit code of a process with a script that never ends."""


class _Mutated:
    """Reads as the folder of the Lua files does, with one line of one file replaced."""

    def __init__(self, mutant: Mutant, path: str = "") -> None:
        self._mutant = mutant
        self._path = path

    def __truediv__(self, name: str) -> _Mutated:
        return _Mutated(self._mutant, f"{self._path}/{name}".lstrip("/"))

    def read_text(self) -> str:
        """The text of this file."""
        text = (LUA / self._path).read_text()
        if self._path != self._mutant.file:
            return text
        lines = text.splitlines(keepends=True)
        at = self._mutant.line - 1
        if lines[at].rstrip("\n") != self._mutant.right:
            raise AssertionError(f"{self._mutant.name}: the line has changed since it was chosen")
        lines[at] = self._mutant.wrong + "\n"
        return "".join(lines)


def pytest_configure() -> None:
    """Put the mutant in place before any script is read."""
    if mutant := os.environ.get("MUTANT"):
        setattr(scripts, "_FOLDER", _Mutated(Mutant(*json.loads(mutant))))  # noqa: B010  a stand-in
        for known in (scripts.is_timed, scripts.source_of, scripts.digest_of):
            known.cache_clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests into their order."""
    if order := os.environ.get("ORDER"):
        by_name = {item.nodeid: item for item in items}
        items[:] = [by_name[name] for name in json.loads(order) if name in by_name]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Wait no longer than a test may take."""
    signal.signal(signal.SIGALRM, lambda *_: _give_up(item.nodeid))
    signal.alarm(PATIENCE_S)
    result = yield
    signal.alarm(0)
    return result


def _give_up(test: str) -> None:
    _tell([test, False, PATIENCE_S])
    os._exit(HUNG)


def pytest_runtest_logreport(report: Any) -> None:
    """Tell what became of a test."""
    if report.when == "call" or not report.passed:
        _tell([report.nodeid, report.passed, report.duration])


def _tell(what: list[Any]) -> None:
    if told := os.environ.get("TOLD"):
        with Path(told).open("a") as file:
            file.write(json.dumps(what) + "\n")
