"""A plugin of pytest: the scripts of this run are those of one mutant.

MUTANT names it: a JSON list of file, line, right and wrong text.
"""

from __future__ import annotations

import json
import os

from crawlstream.frontier import scripts
from mutation.mutants import LUA, Mutant


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
    mutant = Mutant(*json.loads(os.environ["MUTANT"]))
    setattr(scripts, "_FOLDER", _Mutated(mutant))  # noqa: B010  it stands in for a folder
