"""Output of commands: a terminal has a width and obeys escape sequences, a pipe and a file do not.

Ids, URLs and bodies are written by clients and sites. All output of commands goes through here,
where control characters for terminals are escaped; a program that reads it gets the bytes as they
are.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from crawlstream.boot.printable import printable

_UNBOUNDED = 10_000
"""Columns; nothing that is shown is wider, and what `grep` reads must not be cut."""


class PrintableConsole(Console):
    """A console on which no text is obeyed by the terminal, be it printed or in a table."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Make rich text of any string that is to be shown."""
        return super().render_str(printable(text), **options)


def stdout_console(**options: Any) -> Console:
    """Return standard output; as wide as the text unless a person reads it."""
    is_seen = sys.stdout.isatty() or "COLUMNS" in os.environ
    return PrintableConsole(width=None if is_seen else _UNBOUNDED, **options)


def stderr_console() -> Console:
    """Return standard error, for messages about progress."""
    return PrintableConsole(stderr=True)


def print_line(text: str, *, end: str = "\n") -> None:
    """Write to standard output: as it is for a program, printable for a person."""
    sys.stdout.write((printable(text) if sys.stdout.isatty() else text) + end)
