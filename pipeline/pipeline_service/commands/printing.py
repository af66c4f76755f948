"""How commands print: tables for people, lines of JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from crawlstream.boot.printable import printable
from crawlstream.wire import jsontext

EXIT_FAILED = 1


def print_line(text: str) -> None:
    """Print one line on standard output."""
    sys.stdout.write(f"{printable(text)}\n")


def complain(text: str) -> None:
    """Print an error as one line on standard error."""
    sys.stderr.write(f"crawlstream: {printable(' '.join(text.split()))}\n")


def print_json(value: object) -> None:
    """A value as one line of JSON."""
    sys.stdout.write(jsontext.dumps(value).decode() + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; numbers are on the right."""
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for number, name in enumerate(columns):
        are_numbers = rows and all(row[number].replace(",", "").isdigit() for row in rows)
        table.add_column(name, justify="right" if are_numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console(soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else 200).print(
        table
    )
