"""A named test finds each bug that is planted on purpose."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mutation.bug import Bug
from mutation.bugs import BUGS
from mutation.planted import RED_BY

TESTS = Path(__file__).parent.parent


class Planter:
    """The process that runs tests with a bug; see ``mutation.planted``."""

    def __init__(self, told: Path) -> None:
        self._told = told.open("w+b")
        self._process = subprocess.Popen(
            (sys.executable, "-m", "mutation.planted"),
            cwd=TESTS.parent,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._told,
            text=True,
        )

    def run(self, bug: Bug) -> tuple[int, str]:
        """Exit code and output of pytest."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin
        assert stdout
        file, _, name = bug.test.partition("::")
        begin = self._told.seek(0, os.SEEK_END)
        args = [str(TESTS / file), "-k", name]
        stdin.write(json.dumps([bug.module, bug.right, bug.wrong, args]) + "\n")
        stdin.flush()
        code = int(stdout.readline())
        self._told.seek(begin)
        return code, self._told.read().decode()

    def end(self) -> None:
        """There are no more bugs."""
        self._process.communicate()
        self._told.close()


@pytest.fixture(scope="module")
def planter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planter]:
    """A process for all bugs."""
    planter = Planter(tmp_path_factory.mktemp("planted") / "told")
    yield planter
    planter.end()


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_named_test_finds_the_bug(bug: Bug, planter: Planter) -> None:
    """It is red with the bug, because an assertion of its own fails, and not an import."""
    code, said = planter.run(bug)
    assert code == 1, said[-3000:]
    assert "1 failed" in said
    assert said.rstrip().rpartition(RED_BY)[2] in bug.red_by, said[-3000:]
