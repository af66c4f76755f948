"""A terminal without a screen: what a command shows, moment by moment.

It knows what Rich writes: colours, the cursor up and down, and the erasing of lines.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

_ESCAPE = re.compile(
    r"\x1b\[(?P<numbers>[?\d;]*)(?P<command>[A-Za-z])|\x1b\].*?(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[?\d;]*|\][^\x07\x1b]*\x1b?|[()])?$")


@dataclass(frozen=True, slots=True)
class Style:
    """How a character looks; a colour is an index of 256, None the usual one."""

    colour: int | None = None
    bold: bool = False
    dim: bool = False


PLAIN = Style()


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of one style, side by side."""

    column: int
    text: str
    style: Style


Picture = tuple[tuple[Run, ...], ...]
"""A screen: its rows from above."""


@dataclass(slots=True)
class Screen:
    """Rows and columns, a cursor, and what was written there."""

    columns: int
    rows: int
    _cells: list[dict[int, tuple[str, Style]]] = field(default_factory=list)
    _row: int = 0
    _column: int = 0
    _style: Style = PLAIN
    _rest: str = ""

    def write(self, text: str) -> None:
        """Show text; an escape sequence that is cut off waits for its rest."""
        text = self._rest + text
        cut = _UNFINISHED.search(text)
        self._rest = cut.group() if cut else ""
        text = text.removesuffix(self._rest)
        at = 0
        for escape in _ESCAPE.finditer(text):
            self._put(text[at : escape.start()])
            at = escape.end()
            if escape["command"]:
                self._obey(escape["command"], escape["numbers"])
        self._put(text[at:])

    def picture(self) -> Picture:
        """The visible text."""
        self._line()
        return tuple(tuple(_runs(cells)) for cells in self._cells[: self.rows])

    def _line(self) -> dict[int, tuple[str, Style]]:
        """The cells of the cursor's row; rows above are scrolled away when there are too many."""
        while self._row >= self.rows:
            del self._cells[0]
            self._row -= 1
        while len(self._cells) <= self._row:
            self._cells.append({})
        return self._cells[self._row]

    def _put(self, text: str) -> None:
        for character in text:
            match character:
                case "\n":
                    self._row += 1
                    self._line()
                case "\r":
                    self._column = 0
                case _ if character >= " ":
                    if self._column == self.columns:
                        self._row, self._column = self._row + 1, 0
                    self._line()[self._column] = (character, self._style)
                    self._column += 1

    def _obey(self, command: str, numbers: str) -> None:
        given = [int(number) for number in re.findall(r"\d+", numbers)]
        count = given[0] if given else 0
        match command:
            case "A":
                self._row = max(self._row - max(count, 1), 0)
            case "B":
                self._row += max(count, 1)
            case "C":
                self._column = min(self._column + max(count, 1), self.columns)
            case "G":
                self._column = max(count, 1) - 1
            case "K":
                self._erase(count)
            case "J":
                self._erase(count)
                del self._cells[self._row + 1 :]
            case "m":
                self._style = _styled(self._style, given or [0])
            case _:
                pass

    def _erase(self, which: int) -> None:
        line = self._line()
        for column in [*line]:
            if which == 2 or (column >= self._column if which == 0 else column <= self._column):
                del line[column]


def _runs(cells: Mapping[int, tuple[str, Style]]) -> Sequence[Run]:
    """A row as runs; empty cells between are blanks."""
    last = max((column for column, (text, _) in cells.items() if text != " "), default=-1)
    row = [cells.get(column, (" ", PLAIN)) for column in range(last + 1)]
    runs, column = [], 0
    for style, group in groupby(row, key=lambda cell: cell[1]):
        text = "".join(character for character, _ in group)
        if text.strip():
            runs.append(Run(column, text, style))
        column += len(text)
    return runs


_CHANGES: Mapping[int, Mapping[str, Any]] = {
    0: {"colour": None, "bold": False, "dim": False},
    1: {"bold": True},
    2: {"dim": True},
    22: {"bold": False, "dim": False},
    39: {"colour": None},
    **{30 + index: {"colour": index} for index in range(8)},
    **{90 + index: {"colour": 8 + index} for index in range(8)},
}
"""Effect of a code of ``CSI … m`` on a style."""


def _styled(style: Style, codes: Sequence[int]) -> Style:
    """A style after ``CSI … m``."""
    queue = iter(codes)
    for code in queue:
        if code in {38, 48}:
            colour = _extended(queue)
            style = replace(style, colour=colour) if code == 38 else style
        else:
            style = replace(style, **_CHANGES.get(code, {}))
    return style


def _extended(codes: Iterator[int]) -> int:
    """The index after 38;5, or that of the cube which is nearest to the colour after 38;2."""
    if next(codes, 5) == 5:
        return next(codes, 0)
    red, green, blue = (round(next(codes, 0) / 51) for _ in range(3))
    return 16 + 36 * red + 6 * green + blue


@dataclass(frozen=True, slots=True)
class Moment:
    """A screen, and for how many seconds it was seen."""

    picture: Picture
    seconds: float


_TYPING_S = 0.12
"""For every few characters."""


@dataclass(slots=True)
class Recording:
    """Commands that are typed and run in one terminal, one after the other."""

    columns: int = 92
    rows: int = 24
    shortest_s: float = 0.12
    """Moments that are shorter are not kept."""
    longest_s: float = 1.5
    """Waiting beyond it is left out."""
    speed: float = 1
    """How many seconds of a command are shown in one."""
    moments: list[Moment] = field(default_factory=list)
    _screen: Screen | None = None

    def type_command(self, line: str) -> None:
        """Show how a command is typed."""
        screen = self._shown()
        screen.write("\x1b[1;32m$\x1b[0m ")
        for start in range(0, len(line), 5):
            screen.write(line[start : start + 5])
            self._keep(_TYPING_S)
        self._keep(0.6)
        screen.write("\r\n")

    def run(self, argv: Sequence[str], *, environment: Mapping[str, str], folder: Path) -> int:
        """Run a command and keep what it shows; its exit code."""
        ours, its = pty.openpty()
        size = struct.pack("HHHH", self.rows, self.columns, 0, 0)
        sizes = {"COLUMNS": str(self.columns), "LINES": str(self.rows)}
        fcntl.ioctl(its, termios.TIOCSWINSZ, size)
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env={**environment, **sizes, "TERM": "xterm-256color"},
            stdin=subprocess.DEVNULL,
            stdout=its,
            stderr=its,
        )
        os.close(its)
        try:
            self._watch(ours)
        finally:
            os.close(ours)
            status = process.wait()
        self._keep(self.longest_s)
        return status

    def _watch(self, terminal: int) -> None:
        """Read until the command has closed its terminal."""
        screen, decoder = self._shown(), codecs.getincrementaldecoder("utf-8")("replace")
        since = time.monotonic()
        while True:
            is_readable = select.select([terminal], [], [], self.shortest_s)[0]
            if (now := time.monotonic()) - since >= self.shortest_s:
                self._keep(min((now - since) / self.speed, self.longest_s))
                since = now
            if is_readable:
                try:
                    data = os.read(terminal, 65536)
                except OSError:  # EIO: the other end is closed.
                    return
                if not data:
                    return
                screen.write(decoder.decode(data))

    def _shown(self) -> Screen:
        if self._screen is None:
            self._screen = Screen(self.columns, self.rows)
        return self._screen

    def _keep(self, seconds: float) -> None:
        """Note what is seen; what has not changed is seen for longer, up to the limit."""
        picture = self._shown().picture()
        if self.moments and self.moments[-1].picture == picture:
            seconds = min(self.moments.pop().seconds + seconds, max(self.longest_s, seconds))
        self.moments.append(Moment(picture, seconds))
