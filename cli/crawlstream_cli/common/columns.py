"""Tables that fit their terminal: what a reader can do without is left out, and named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from crawlstream.boot.printable import printable

_GAP = 1
"""Blanks between two columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column of a table, with its cells from above."""

    name: str
    cells: Sequence[Text]
    justify: Literal["left", "right"] = "left"
    spare: int = 0
    """Left out where the terminal is too narrow, the largest first; 0: never."""
    narrowest: int | None = None
    """Its cells are wrapped down to this many characters; None: they are not."""

    @property
    def width(self) -> int:
        """Minimum width."""
        widest = max((cell.cell_len for cell in self.cells), default=0)
        bound = widest if self.narrowest is None else min(widest, self.narrowest)
        return max(bound, len(self.name)) + _GAP


def cell(text: object, style: str = "") -> Text:
    """Return the text of a table cell, without markup and control characters from any source."""
    return Text(printable(str(text)), style)


def print_columns(console: Console, columns: Sequence[TableColumn]) -> None:
    """Print a table no wider than the console, and which columns had no room."""
    shown, left_out = fitting(columns, console.width)
    table = Table(box=None, header_style="bold", padding=(0, _GAP, 0, 0))
    for column in shown:
        is_whole = column.narrowest is None
        overflow: Literal["ellipsis", "fold"] = "ellipsis" if is_whole else "fold"
        table.add_column(
            column.name,
            justify=column.justify,
            no_wrap=is_whole,
            overflow=overflow,
            min_width=column.width - _GAP,
        )
    for row in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*row)
    console.print(table)
    if left_out:
        console.print(f"[dim]No room for: {', '.join(left_out)}.[/]", highlight=False)


def fitting(
    columns: Sequence[TableColumn], width: int
) -> tuple[Sequence[TableColumn], Sequence[str]]:
    """Return the columns that fit into ``width`` characters, and the names of the others."""
    shown, left_out = list(columns), []
    while sum(column.width for column in shown) > width:
        dispensable = max(shown, key=lambda column: column.spare)
        if not dispensable.spare:
            break
        shown.remove(dispensable)
        left_out.append(dispensable.name)
    return shown, left_out
