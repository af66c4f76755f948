"""Contents of the store of a pipeline, as any reader sees them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OUTCOMES = ("delivered", "repeats", "filtered", "undelivered")
"""Outcomes of records that were read, as in accounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedSegment:
    """Offsets ``start`` up to ``next`` of a partition, as a claim has them."""

    partition: int
    start: int
    next: int
    files: Mapping[str, int] | None = None
    """Names of its files -> pages in each, as noted when it was finished; None: it never was."""
    account: Mapping[str, Any] = field(default_factory=dict)
    """Counts of all records of the partition up to its end: `total`, and `runs` by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Contents of a pipeline's store."""

    pipeline: str
    statuses: Collection[int] = range(1000)
    """Statuses of the pages that it stores."""
    pages: Mapping[str, Sequence[str]]
    """File -> ids of its pages."""
    documents: Sequence[tuple[str, str]] | None = None
    """URL and id of each document of an index of the newest pages; None: it keeps all pages."""
    faults: Sequence[str] = ()
    """Faults of an archive: of its records, its indexes and its revisits."""
    revisits: int = 0
    """Number of pages of an archive whose payload another record has."""
    bodies: frozenset[str] = frozenset()
    """Ids of the pages that it has a body of."""
    judged: frozenset[str] = frozenset()
    """Ids of pages of crawls that were judged before."""
    segments: Sequence[ClaimedSegment] = ()
    """By partition and start."""
    source: Mapping[int, int] = field(default_factory=dict)
    """Partition -> offset behind the last record of the source."""

    def last(self) -> Mapping[int, ClaimedSegment]:
        """The last segment of each partition."""
        return {segment.partition: segment for segment in self.segments}

    def tally(self, run: str | None = None) -> dict[str, Any]:
        """The account of a run, or of all, over all partitions."""
        accounts = [each.account for each in self.last().values() if each.account]
        if run is None:
            tallies = [account["total"] for account in accounts]
        else:
            tallies = [account["runs"][run] for account in accounts if run in account["runs"]]
        names = ("read", *OUTCOMES)
        return {name: sum(count_of(each[name]) for each in tallies) for name in names}

    def marked(self, name: str) -> int:
        """Return a count that only archives have, over all partitions."""
        totals = [each.account["total"] for each in self.last().values() if each.account]
        return sum(total.get("marks", {}).get(name, 0) for total in totals)


def count_of(told: int | Mapping[str, int]) -> int:
    """A number, or numbers by reason."""
    return told if isinstance(told, int) else sum(told.values())


def unaccounted(tally: Mapping[str, Any]) -> int:
    """Return the number of records that were read but have no outcome."""
    return count_of(tally["read"]) - sum(count_of(tally[name]) for name in OUTCOMES)
