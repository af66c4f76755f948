"""Filters and order of a list, changed by plain links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

Row = TypeVar("Row")
Key = Callable[[Row], Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list at an address; ``sort`` is a column, with ``-`` before it for the largest first."""

    path: str
    filters: Mapping[str, str]
    """Values of the filters; empty ones have no effect."""
    sort: str
    numbers: frozenset[str] = frozenset()
    """Columns that are first sorted by the largest value."""

    def link(self, **more: str) -> str:
        """Return the address of the same list with other parameters."""
        asked = {**self.filters, "sort": self.sort, **more}
        query = urlencode({name: text for name, text in asked.items() if text})
        return f"{self.path}?{query}" if query else self.path

    def by(self, column: str) -> str:
        """Return the address of the list sorted by a column; reversed if already sorted by it."""
        first = f"-{column}" if column in self.numbers else column
        other = column if column in self.numbers else f"-{column}"
        return self.link(sort=other if self.sort == first else first)

    def direction(self, column: str) -> str:
        """Return the direction of a column for ``aria-sort``."""
        if self.sort == column:
            return "ascending"
        return "descending" if self.sort == f"-{column}" else "none"


def ordered(
    rows: Iterable[Row], sort: str, columns: Mapping[str, Key[Row]], *, otherwise: str
) -> tuple[Sequence[Row], str]:
    """Return sorted rows and the order's name; an unknown order is replaced by ``otherwise``.

    Rows without a value (None) come last in either direction.
    """
    sort = sort if sort.removeprefix("-") in columns else otherwise
    key = columns[sort.removeprefix("-")]
    rows = list(rows)
    told = [row for row in rows if key(row) is not None]
    told.sort(key=key, reverse=sort.startswith("-"))
    return [*told, *(row for row in rows if key(row) is None)], sort
