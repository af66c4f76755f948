"""Account of the records read: ``read = delivered + repeats + filtered + undelivered``.

It is kept with the position, in the store: each finished segment has the account of all records of
its partition up to its end. So no record is added up twice, also after a crash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.delivered import Delivered
from pipeline_service.formats.payloads import REVISITS, SAVED
from pipeline_service.spec.quality.counts import QualityCounts

MOST_RUNS = 1_000
"""Whose accounts are kept, those that were read of last; the total is of all there ever were."""
MOST_JUDGED = 100
"""Number of these whose quality is kept, too."""
DROPPED, RESERVED, REQUISITES = "dropped.", "reserved", "requisites"
OF_ARCHIVES = (REQUISITES, REVISITS, SAVED)
KEPT_MS = 14 * 24 * 3600 * 1000


@dataclass(slots=True)
class RecordTally:
    """Numbers of records."""

    read: int = 0
    delivered: int = 0
    repeats: int = 0
    filtered: Counter[str] = field(default_factory=Counter)
    """By reason."""
    undelivered: Counter[str] = field(default_factory=Counter)
    """By reason."""
    lost: int = 0
    """Offsets that Kafka had deleted before they were read; not among those read."""
    marks: Counter[str] = field(default_factory=Counter)
    """Pages that were not repeats: ``reserved``; without their body: ``dropped.`` and the word.

    Archives: ``requisites``; ``revisits`` and ``bytes_saved`` by payloads that are stored once.
    """
    quality: QualityCounts = field(default_factory=QualityCounts)
    """Quality of the items of pages that were not repeats, where the pipeline counts them."""

    @property
    def is_closed(self) -> bool:
        """Return whether every record that was read is accounted for."""
        rest = self.filtered.total() + self.undelivered.total()
        return self.read == self.delivered + self.repeats + rest

    @property
    def wanted(self) -> int:
        """Pages that no ``where`` has filtered, repeats aside."""
        others = sum(count for why, count in self.filtered.items() if why[:6] == "where.")
        return self.read - self.repeats - others

    @property
    def archived(self) -> Mapping[str, int]:
        """Return the counts that only archives have, those that are not 0."""
        return {name: self.marks[name] for name in OF_ARCHIVES if self.marks[name]}

    @property
    def dropped(self) -> Mapping[str, int]:
        """Return the pages whose body was not kept, by the word that says so."""
        marks = sorted(self.marks.items())
        return {mark[len(DROPPED) :]: n for mark, n in marks if mark.startswith(DROPPED)}

    def add(self, other: RecordTally) -> None:
        """Add another's numbers."""
        self.read += other.read
        self.delivered += other.delivered
        self.repeats += other.repeats
        self.lost += other.lost
        self.filtered += other.filtered
        self.undelivered += other.undelivered
        self.marks += other.marks
        self.quality.add(other.quality)

    def numbers(self) -> dict[str, Any]:
        """Return the counts of records, as an object of JSON."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return numbers | {name: dict(sorted(getattr(self, name).items())) for name in _REASONS}

    def as_record(self) -> dict[str, Any]:
        """Return the counts, and marks and quality of items where there are any."""
        is_counted = self.quality.is_counted or self.quality.is_cut
        marks = {"marks": dict(sorted(self.marks.items()))} if self.marks else {}
        return self.numbers() | marks | (self.quality.as_record() if is_counted else {})

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> RecordTally:
        """Read such an object; KeyError, TypeError, ValueError for anything else."""
        return cls(
            read=int(record["read"]),
            delivered=int(record["delivered"]),
            repeats=int(record["repeats"]),
            filtered=Counter(record["filtered"]),
            undelivered=Counter(record["undelivered"]),
            lost=int(record["lost"]),
            marks=Counter(record.get("marks", {})),
            quality=QualityCounts.of_record(record) if "items" in record else QualityCounts(),
        )


def marks_of(page: Delivered) -> Sequence[str]:
    """Return what a page counts as besides its outcome, as endings count it."""
    if page.dropped is None and page.rights is None and page.is_page:
        return ()
    kinds = (REQUISITES,) if page.extra.get("kind") == "requisite" else ()
    dropped = () if page.dropped is None else (DROPPED + page.dropped,)
    is_reserved = page.rights is not None and page.rights.get("reserved") is True
    return (*kinds, *dropped, RESERVED) if is_reserved else (*kinds, *dropped)


_NUMBERS = ("read", "delivered", "repeats", "lost")
_REASONS = ("filtered", "undelivered")


def run_name(crawl: CrawlKey, run: int) -> str:
    """Return the name of a run in an account: no two runs have one name."""
    return "\t".join((crawl.appid, crawl.crawlid, crawl.spiderid, str(run)))


def run_of(page: Delivered) -> str:
    """Return the name of the run that a page belongs to."""
    return run_name(CrawlKey(page.spiderid, page.appid, page.crawlid), page.run)


class Account:
    """A total, and a tally of each of the runs that were read of last."""

    def __init__(self) -> None:
        self.total = RecordTally()
        self.runs: dict[str, RecordTally] = {}
        self._seen: dict[str, int] = {}
        """Latest time of a record of a run, in epoch ms.

        It is the records' time, so the process and the time of the count do not matter.
        """

    def count(
        self,
        run: str | None,
        at_ms: int,
        outcome: str,
        reason: str = "",
        *,
        marks: Sequence[str] | Mapping[str, int] = (),
        quality: QualityCounts | None = None,
    ) -> None:
        """Count a record: ``delivered``, ``repeats``, ``filtered`` or ``undelivered``.

        ``run`` is None where it is unknown; ``marks`` are as in a tally; ``quality`` is of its
        items.
        """
        tallies = [self.total]
        if run is not None:
            self._seen[run] = max(at_ms, self._seen.get(run, 0))
            tallies.append(self.runs.setdefault(run, RecordTally()))
        for tally in tallies:
            tally.read += 1
            tally.marks.update(marks)
            if quality is not None:
                tally.quality.add(quality)
            if outcome in _REASONS:
                getattr(tally, outcome)[reason] += 1
            else:
                setattr(tally, outcome, getattr(tally, outcome) + 1)

    def add(self, other: Account) -> None:
        """Add another's, and forget the runs that are too many, or too old."""
        self.total.add(other.total)
        for run, tally in other.runs.items():
            self.runs.setdefault(run, RecordTally()).add(tally)
            self._seen[run] = max(other._seen[run], self._seen.get(run, 0))
        newest = sorted(self._seen, key=lambda run: (-self._seen[run], run))
        last_ms = self._seen[newest[0]] if newest else 0
        kept = [run for run in newest[:MOST_RUNS] if self._seen[run] > last_ms - KEPT_MS]
        self.runs = {run: self.runs[run] for run in kept}
        self._seen = {run: self._seen[run] for run in kept}
        for run in kept[MOST_JUDGED:]:
            self.runs[run].quality.forget()

    def run_record(self, run: str) -> dict[str, Any]:
        """The tally of one run as an object of JSON."""
        return {**self.runs[run].as_record(), "seen_ms": self._seen[run]}

    def as_record(self) -> dict[str, Any]:
        """As an object of JSON."""
        runs = {run: self.run_record(run) for run in sorted(self.runs)}
        return {"total": self.total.as_record(), "runs": runs}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Account:
        """Read such an object; KeyError, TypeError, ValueError for anything else."""
        account = cls()
        account.total = RecordTally.of_record(record["total"])
        for run, told in record["runs"].items():
            account.runs[run] = RecordTally.of_record(told)
            account._seen[run] = int(told["seen_ms"])
        return account


def summed(accounts: Iterable[Account]) -> Account:
    """All of them in one."""
    whole = Account()
    for account in accounts:
        whole.add(account)
    return whole
