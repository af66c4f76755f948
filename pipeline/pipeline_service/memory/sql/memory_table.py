"""Statements for a memory's table, within transactions of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline_service.memory.known_page import KnownPage
from pipeline_service.memory.sql.effect import KINDS, listed, pages_of
from pipeline_service.sinks.sql.database import Transaction, as_time, quoted
from pipeline_service.spec.rule import Paced, freshness, paced

_SAMPLE = 1_000
"""Pages by which freshness is estimated."""
_MOST_COUNTED = 100_000


class MemoryTable:
    """The table of a memory."""

    def __init__(self, name: str) -> None:
        self._name = quoted(name)

    def paced(self, transaction: Transaction) -> Sequence[Paced]:
        """Return how many pages have which pace, those that are gone or failing left out."""
        found = self.execute(
            transaction,
            "select pace, least_s, most_s, count(*) from {}"
            " where gone < 2 and fails = 0 group by pace, least_s, most_s",
        )
        return paced({(int(p), float(least), float(most)): int(n) for p, least, most, n in found})

    def fresh(self, transaction: Transaction, now: float) -> float | None:
        """The share of pages that are probably fresh, by 1,000 of them; None: there are none.

        Keys are hashes, so those behind any place are as good as drawn.
        """
        place = f"{int(now * 1000) * 2654435761 % (1 << 32):08x}"
        pages = self.pages(transaction, f"where id >= %s order by id limit {_SAMPLE}", place)
        if len(pages) < _SAMPLE:
            pages = self.pages(transaction, f"where id >= %s order by id limit {_SAMPLE}", "")
        shares = [
            freshness(page.experience.rate(page.least_s), now - page.last_seen)
            for page in pages
            if not page.is_gone
        ]
        return sum(shares) / len(shares) if shares else None

    def count(self, transaction: Transaction, condition: str, at: float) -> int:
        """Return how many pages there are of which a condition on a time is true, up to 100,000."""
        found = self.execute(
            transaction,
            f"select count(*) from (select 1 as one from {{}} where {condition}"
            f" limit {_MOST_COUNTED}) as counted",
            as_time(at),
        )
        return int(found[0][0])

    def pages(self, transaction: Transaction, rest: str, *values: object) -> Sequence[KnownPage]:
        """The pages that the rest of a statement chooses."""
        found = self.execute(transaction, f"select {listed(KINDS)} from {{}} {rest}", *values)
        return list(pages_of(found))

    def changed(
        self, transaction: Transaction, columns: Sequence[str], since: float, after: str
    ) -> Sequence[KnownPage]:
        """The next pages by key that are new, changed or gone since then, at most 1,000."""
        found = self.execute(
            transaction,
            f"select {listed(columns)} from {{}} where (first_seen >= %s or last_changed >= %s)"
            f" and id > %s order by id limit {_SAMPLE}",
            *(as_time(since), as_time(since), after),
        )
        return list(pages_of(found, columns))

    def execute(self, transaction: Transaction, statement: str, *values: object) -> Sequence[Any]:
        """Return the answer of a statement, in which ``{}`` stands for the table."""
        return transaction.execute(statement.format(self._name), values)
