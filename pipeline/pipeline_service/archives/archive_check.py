"""Check of an archive: its files, their records and indexes, its accounts, and its references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

from crawlstream.store.store import Store, StoreUnavailable
from pipeline_service.archives.index_check import IndexCheck
from pipeline_service.archives.scratch import Scratch, scratch
from pipeline_service.archives.stored_segments import ArchiveSegment, chains_of
from pipeline_service.archives.warc_file import BrokenFile, WarcFile, WarcRecord
from pipeline_service.formats.payloads import REVISITS
from pipeline_service.records.account import Account
from pipeline_service.sinks.files.segments import index_name

MOST_PROBLEMS = 1_000
"""Number of problems that are kept; more are counted."""
WARC, REPLAYED = ".warc.gz", "replayed-"
COUNTED = ("segments", "files", "pages", REVISITS, "bytes", "unfinished", "without_index")


class ArchiveFault(NamedTuple):
    """Fault of an archive."""

    where: str
    """File, with an offset where it is about a record; or a segment."""
    what: str


@dataclass(slots=True)
class ArchiveReport:
    """Result of a check."""

    counts: Counter[str] = field(default_factory=Counter)
    """Numbers of what was read, by the names of COUNTED."""
    problems: list[ArchiveFault] = field(default_factory=list)
    """The first of them."""
    problem_count: int = 0

    def add(self, where: str, what: str) -> None:
        """Add a problem."""
        self.problem_count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(ArchiveFault(where, what))


def check_archive(store: Store, progress: Callable[[Counter[str]], None]) -> ArchiveReport:
    """Read all WARC files of a store. StoreUnavailable, BrokenChain.

    ``progress`` is called after each file. What a pipeline stores meanwhile is not read.
    """
    with scratch() as found:
        check = _Check(store, found, progress)
        check.run()
        return check.report


class _Check:
    def __init__(
        self, store: Store, found: Scratch, progress: Callable[[Counter[str]], None]
    ) -> None:
        self.report = ArchiveReport()
        self._store = store
        self._found = found
        self._progress = progress

    def run(self) -> None:
        # Before the claims: each file that is there is of one that is there, too.
        left = {name for name in self._store.list() if name.endswith(WARC)}
        for chain in chains_of(self._store):
            before, end = Account(), None
            for segment in chain:
                self._segment(segment, before, end)
                left.difference_update(segment.claimed, segment.files)
                before, end = segment.account or before, segment.next
        for name in sorted(left):
            if name.rpartition("/")[2].startswith(REPLAYED):
                self._file(name, {})
            else:
                self.report.add(name, "it belongs to no segment")
        for where, what in self._found.dangling():
            self.report.add(where, f"the record that it refers to {what}")

    def _segment(self, segment: ArchiveSegment, before: Account, end: int | None) -> None:
        where = f"segment {segment.chain} {segment.start}"
        if end not in (None, segment.start):
            self.report.add(where, f"the segment before ends at {end}")
        if segment.account is None:
            self.report.counts["unfinished"] += 1
            return
        self.report.counts["segments"] += 1
        found = Counter[str]()
        for name, told in segment.files.items():
            found += self._file(name, told)
        total, earlier = segment.account.total, before.total
        for name, count in (
            ("pages", total.delivered - earlier.delivered),
            (REVISITS, total.marks[REVISITS] - earlier.marks[REVISITS]),
        ):
            if found[name] != count:
                self.report.add(
                    where, f"its account has {count} {name}, and its files {found[name]}"
                )

    def _file(self, name: str, told: Mapping[str, Any]) -> Counter[str]:
        """Check a file by what is noted of it; return the numbers of its pages and revisits."""
        counts, index, pages = Counter[str](), IndexCheck(name), _Pages(name, self.report)
        with _opened(self._store, name) as file:
            if file is None:
                self.report.add(name, "it is missing")
                return counts
            warc = WarcFile(file)
            try:
                for record in warc.records():
                    pages.add(record)
                    index.expect(record)
                    self._note(name, record, counts)
                pages.end()
            except BrokenFile as error:
                self.report.add(name, str(error))
            self._compare(
                name, told, {"sha256": warc.sha256(), "bytes": warc.size, "rows": counts["pages"]}
            )
        self._check_index(name, index, told)
        self.report.counts.update({"files": 1, "bytes": warc.size, **counts})
        self._progress(self.report.counts)
        return counts

    def _note(self, name: str, record: WarcRecord, counts: Counter[str]) -> None:
        where = f"{name} at {record.offset}"
        if record.problem:
            self.report.add(where, record.problem)
        if not record.is_of_a_page:
            return
        counts["pages"] += 1
        if not self._found.add_page(record.get("warc-record-id")):
            self.report.add(where, "its page is there twice")
        if record.kind == "response":
            self._found.add_payload(record)
        elif record.holder is not None:
            counts[REVISITS] += 1
            self._found.add_revisit(record, record.holder, where)

    def _compare(self, name: str, told: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        for key, value in found.items():
            if key in told and told[key] != value:
                self.report.add(name, f"its {key} is {value}, and the account says {told[key]}")

    def _check_index(self, name: str, index: IndexCheck, told: Mapping[str, Any]) -> None:
        path = index_name(name)
        with _opened(self._store, path) as file:
            if file is not None:
                if fault := index.fault(file):
                    self.report.add(path, fault)
            elif "index" in told:
                self.report.add(path, "it is missing")
            else:
                self.report.counts["without_index"] += 1


class _Pages:
    """Records of a file, page by page."""

    def __init__(self, name: str, report: ArchiveReport) -> None:
        self._name = name
        self._report = report
        self._first: WarcRecord | None = None
        self._kinds: set[str] = set()
        self._is_begun = False

    def add(self, record: WarcRecord) -> None:
        """Add the next record."""
        if not self._is_begun:
            self._is_begun = True
            if record.kind != "warcinfo":
                self._fault(record, "it does not begin with warcinfo")
        elif record.is_of_a_page:
            self.end()
            self._first, self._kinds = record, {record.kind}
        elif self._first is None or record.get("warc-concurrent-to") != self._first.get(
            "warc-record-id"
        ):
            self._fault(record, "it belongs to another page than the one before it")
        else:
            self._kinds.add(record.kind)

    def end(self) -> None:
        """Check that the last page is whole."""
        if self._first is not None and not {"request", "metadata"} <= self._kinds:
            self._fault(self._first, "its page has no request, or no metadata")

    def _fault(self, record: WarcRecord, what: str) -> None:
        self._report.add(f"{self._name} at {record.offset}", what)


@contextmanager
def _opened(store: Store, name: str) -> Iterator[BinaryIO | None]:
    """Provide a file of a store; None: there is none. StoreUnavailable."""
    try:
        try:
            file = store.filesystem.open(store.url(name), "rb")
        except FileNotFoundError:
            yield None
            return
        with closing(file):
            yield file
    except OSError as error:
        raise StoreUnavailable(f"cannot read {store.url(name)}: {error}") from error
