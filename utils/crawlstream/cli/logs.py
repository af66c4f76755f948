"""``crawlstream logs``: what the processes of a cluster say."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from crawlstream.cli.console import say
from crawlstream.errors import SetupError
from crawlstream.local.home import default_home

_LOOK_EVERY_S = 0.2
_TAIL_BYTES = 1 << 20


def logs(
    name: Annotated[
        str | None,
        typer.Argument(help="Process name as shown by `status`; default: all processes."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C.")
    ] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="Number of last lines per process.")
    ] = 20,
) -> None:
    """Show the latest log lines of the processes of the cluster in CRAWLSTREAM_HOME.

    Example: crawlstream logs crawler-1 -f
    """
    folder = default_home().logs
    files = _chosen(folder, name)
    tails = [_Tail(path, prefix=f"{path.stem} | " if len(files) > 1 else "") for path in files]
    for tail in tails:
        _write(tail.last(lines))
    while follow:
        time.sleep(_LOOK_EVERY_S)
        for tail in tails:
            _write(tail.new())


def _chosen(folder: Path, name: str | None) -> Sequence[Path]:
    known = sorted(folder.glob("*.log"))
    if not known:
        raise SetupError(f"no logs found in {folder}: start a cluster with ./crawlstream up")
    if name is None:
        return known
    chosen = [path for path in known if path.stem == name]
    if not chosen:
        raise SetupError(f"unknown process {name}; known: {', '.join(p.stem for p in known)}")
    return chosen


def _write(lines: Iterable[str]) -> None:
    for line in lines:
        say(line, end="")
    sys.stdout.flush()


class _Tail:
    """The end of a file that grows, and is now and then moved away by its writer."""

    def __init__(self, path: Path, prefix: str) -> None:
        self._path = path
        self._prefix = prefix
        self._file = path.open("rb")

    def last(self, count: int) -> Iterator[str]:
        size = self._path.stat().st_size
        self._file.seek(max(0, size - _TAIL_BYTES))
        found = self._file.read().splitlines(keepends=True)
        return self._lines(found[len(found) - min(count, len(found)) :])

    def new(self) -> Iterator[str]:
        lines = self._file.readlines()
        if not lines and self._was_moved():
            self._file = self._path.open("rb")
            lines = self._file.readlines()
        return self._lines(lines)

    def _was_moved(self) -> bool:
        try:
            return self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            return False

    def _lines(self, found: Iterable[bytes]) -> Iterator[str]:
        for line in found:
            yield self._prefix + line.decode(errors="replace")
