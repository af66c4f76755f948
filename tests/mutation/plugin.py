"""A plugin of pytest: the scripts of this run are those of one mutant, and its tests have an order.

The environment names both. MUTANT: a JSON list of file, line, right and wrong text; without it
nothing is wrong. ORDER: a JSON list of tests; the others are left out. TOLD: the file to
which a JSON line is added after each test: name, whether it passed, how long it took. A test that
takes PATIENCE_S longer than it has to ends the process.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crawlstream_frontier import sources
from mutation.mutants import Mutant
from support.frontier.lua import forget_sources

PATIENCE_S = 60
HUNG = 70
"""The exit code of a process with a script that never ends."""


_read = sources.read


def _read_mutant(mutant: Mutant, file: str) -> str:
    """The text of a Lua file, with one line of one file replaced."""
    text = _read(file)
    if file != mutant.file:
        return text
    lines = text.splitlines(keepends=True)
    at = mutant.line - 1
    if lines[at].rstrip("\n") != mutant.right:
        raise AssertionError(f"{mutant.name}: the line has changed since it was chosen")
    lines[at] = mutant.wrong + "\n"
    return "".join(lines)


def pytest_configure() -> None:
    """Put the mutant in place before any script is read."""
    if mutant := os.environ.get("MUTANT"):
        sources.read = partial(_read_mutant, Mutant(*json.loads(mutant)))
        forget_sources()


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
    """Append the outcome of a test."""
    if report.when == "call" or not report.passed:
        _tell([report.nodeid, report.passed, report.duration])


def _tell(what: list[Any]) -> None:
    if told := os.environ.get("TOLD"):
        with Path(told).open("a") as file:
            file.write(json.dumps(what) + "\n")
