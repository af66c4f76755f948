"""``crawlstream logs``: what the processes of a cluster say."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from crawlstream.called import COMMAND
from crawlstream.errors import SetupError
from crawlstream_cli.common.console import print_line
from crawlstream_cli.local.home import default_home

_LOOK_EVERY_S = 0.2
_TAIL_BYTES = 1 << 20


class Level(StrEnum):
    """How serious a line is."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


_ORDER = list(Level)


def logs(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="PROCESS", help="Process name as shown by `status`; default: all processes."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C.")
    ] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="Number of last lines per process.")
    ] = 20,
    level: Annotated[
        Level, typer.Option(help="Only lines of this level, or more serious ones.")
    ] = Level.DEBUG,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one object per line.")
    ] = False,
) -> None:
    """Show the latest log lines of the processes of the cluster in CRAWLSTREAM_HOME.

    Times are local.

    Example: crawlstream logs crawler-link-1 -f --level warning
    """
    tails = [_Tail(path) for path in _chosen(default_home().logs, name)]

    def wanted(found: Iterable[LogFileLine]) -> list[str]:
        serious = (line for line in found if _ORDER.index(line.level) >= _ORDER.index(level))
        return [line.as_json() if as_json else line.shown() for line in serious]

    with contextlib.ExitStack() as stack:
        for tail in tails:
            stack.callback(tail.close)
            _write(wanted(tail.last())[-lines:] if lines else ())
        while follow:
            time.sleep(_LOOK_EVERY_S)
            for tail in tails:
                _write(wanted(tail.new()))


def _chosen(folder: Path, name: str | None) -> Sequence[Path]:
    known = sorted(folder.glob("*.log"))
    if not known:
        raise SetupError(f"no logs found in {folder}: start a cluster with {COMMAND} up")
    if name is None:
        return known
    chosen = [path for path in known if path.stem == name]
    if not chosen:
        raise SetupError(f"unknown process {name}; known: {', '.join(p.stem for p in known)}")
    return chosen


def _write(lines: Iterable[str]) -> None:
    for line in lines:
        print_line(line)
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class LogFileLine:
    """A line of a process's log file: an event of crawlstream, or a server's line."""

    process: str
    """As ``status`` names it."""
    fields: Mapping[str, Any]
    """Fields of the event; a server's line has only ``event``, its text."""

    @classmethod
    def of(cls, process: str, line: bytes) -> LogFileLine:
        """Read one line, whatever it is."""
        try:
            fields = orjson.loads(line)
        except orjson.JSONDecodeError:
            fields = None
        if not isinstance(fields, dict) or "event" not in fields:
            fields = {"event": line.decode(errors="replace").rstrip()}
        return cls(process, fields)

    @property
    def level(self) -> Level:
        """Level of the line; for a server's line it is searched in the text."""
        with contextlib.suppress(ValueError):
            return Level(str(self.fields.get("level")))
        found = _SERIOUS.search(str(self.fields["event"]))
        return _AS_WE_SAY[found[0]] if found else Level.INFO

    def as_json(self) -> str:
        """For programs: ``process`` is the name by which `status` calls it."""
        return orjson.dumps({**self.fields, "process": self.process}).decode()

    def shown(self) -> str:
        """Return ``18:17:55 crawler-link-1 done 200 7 ms http://...``, then other fields."""
        if "timestamp" not in self.fields:
            return f"{self.process} {self.fields['event']}"
        left = {name: value for name, value in self.fields.items() if name not in _NO_FIELDS}
        event, outcome = left.pop("event"), left.pop("outcome", "")
        what = outcome if event == "settle" and outcome else f"{event} {outcome}".rstrip()
        trace = left.pop("exception", "")
        words = [
            _clock(str(self.fields["timestamp"])),
            self.process,
            *([self.level.upper()] if self.level is not Level.INFO else []),
            str(what),
            *(str(left.pop("status")) for _ in range("status" in left)),
            *(f"{left.pop('latency_ms')} ms" for _ in range("latency_ms" in left)),
            *(str(left.pop("url")) for _ in range("url" in left)),
            *(f"{name}={value}" for name, value in left.items()),
        ]
        return " ".join(words) + (f"\n{trace}" if trace else "")


_NO_FIELDS = frozenset({"timestamp", "process", "level"})
_SERIOUS = re.compile(r"\b(?:WARN|WARNING|ERROR|FATAL)\b")
_AS_WE_SAY = {
    "WARN": Level.WARNING,
    "WARNING": Level.WARNING,
    "ERROR": Level.ERROR,
    "FATAL": Level.CRITICAL,
}


def _clock(timestamp: str) -> str:
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return timestamp


class _Tail:
    """The end of a file that grows, and is now and then moved away by its writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")
        self._torn = b""

    def last(self) -> Iterator[LogFileLine]:
        """The lines at its end, up to a megabyte."""
        size = self._path.stat().st_size
        self._file.seek(max(0, size - _TAIL_BYTES))
        found = self._file.readlines()
        return self._lines(found[1:] if size > _TAIL_BYTES else found)

    def new(self) -> Iterator[LogFileLine]:
        """Yield the lines written since the last call."""
        lines = self._file.readlines()
        if not lines and self._was_moved():
            self.close()
            self._file = self._path.open("rb")
            lines = self._file.readlines()
        return self._lines(lines)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _was_moved(self) -> bool:
        try:
            return self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            return False

    def _lines(self, found: Iterable[bytes]) -> Iterator[LogFileLine]:
        """Whole lines; the rest of one that is being written comes later."""
        for line in found:
            self._torn += line
            if self._torn.endswith(b"\n"):
                whole, self._torn = self._torn, b""
                yield LogFileLine.of(self._path.stem, whole)
