"""How a list was asked for: what is filtered, by which column it is sorted; all by plain links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

Row = TypeVar("Row")
Key = Callable[[Row], Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list under an address; ``sort`` is a column, with ``-`` before it the largest first."""

    path: str
    filters: Mapping[str, str]
    """Those that are empty filter nothing."""
    sort: str
    numbers: frozenset[str] = frozenset()
    """Columns of which the largest is looked for first."""

    def link(self, **more: str) -> str:
        """The same list, asked for otherwise."""
        asked = {**self.filters, "sort": self.sort, **more}
        query = urlencode({name: text for name, text in asked.items() if text})
        return f"{self.path}?{query}" if query else self.path

    def by(self, column: str) -> str:
        """The same list by a column; the other way round where it is sorted by it already."""
        first = f"-{column}" if column in self.numbers else column
        other = column if column in self.numbers else f"-{column}"
        return self.link(sort=other if self.sort == first else first)

    def direction(self, column: str) -> str:
        """As ``aria-sort`` says it."""
        if self.sort == column:
            return "ascending"
        return "descending" if self.sort == f"-{column}" else "none"


def ordered(
    rows: Iterable[Row], sort: str, columns: Mapping[str, Key[Row]], *, otherwise: str
) -> tuple[Sequence[Row], str]:
    """The rows in the order that was asked for, and its name; one that is none is ``otherwise``.

    Rows without a value (None) come last, whichever way round.
    """
    sort = sort if sort.removeprefix("-") in columns else otherwise
    key = columns[sort.removeprefix("-")]
    rows = list(rows)
    told = [row for row in rows if key(row) is not None]
    told.sort(key=key, reverse=sort.startswith("-"))
    return [*told, *(row for row in rows if key(row) is None)], sort
