"""An open segment: pages on their way into files of the spool, and the account of what was read."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from crawlstream.errors import ConfigError, Unavailable
from crawlstream.keys import encode_id
from crawlstream.model.delivered import Delivered
from pipeline_service.formats.cdxj import CdxjIndex
from pipeline_service.formats.columns import COLUMNS, Column
from pipeline_service.formats.files import Crawl, PageWriter, make_writer
from pipeline_service.formats.payloads import KnownPayloads
from pipeline_service.records.account import Account
from pipeline_service.records.judging import Judged, Repeat, Wanted
from pipeline_service.records.rows import Shape
from pipeline_service.sinks.files.repeats import Repeats, short

MOST_FILES = 64
"""Largest number of files of a segment: one more value to partition by, and it is closed."""
_LONGEST_VALUE = 150
"""Characters of a folder's name; more, and a hash stands for the rest."""


LEAST_FREE_BYTES = 256 * 1024 * 1024
"""On the disk of the spool; less, and what is open is closed while there is room to do it."""


class SpoolUnavailable(Unavailable):
    """The spool takes no more; what was begun is begun again when it does."""


class Spool:
    """A folder of this process alone; those of processes that have died are removed."""

    def __init__(self, path: Path) -> None:
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in path.iterdir():
                _remove_if_dead(left)
            self._folder = path / uuid.uuid4().hex
            self._folder.mkdir(mode=0o700)
            self._lock = (self._folder / "lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError as error:
            raise ConfigError(
                f"the spool {path} cannot be used ({error.strerror}): set CRAWLSTREAM_SPOOL to a"
                " directory that can be written"
            ) from error

    def new_file(self) -> Path:
        """A name that no other file has."""
        return self._folder / uuid.uuid4().hex

    @property
    def is_short(self) -> bool:
        """Return whether its disk is nearly full, for any reason."""
        return shutil.disk_usage(self._folder).free < LEAST_FREE_BYTES

    def close(self) -> None:
        """Remove all that is left."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.close()


def _remove_if_dead(folder: Path) -> None:
    with suppress(OSError), (folder / "lock").open("r") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)


class SegmentSpec(Protocol):
    """Settings of a sink whose segments are files."""

    @property
    def format(self) -> str:
        """Format of the files, an element of FORMATS."""

    @property
    def partition_by(self) -> Sequence[str]:
        """Names of the values that all pages of a file have in common."""

    @property
    def max_bytes(self) -> int:
        """Largest file in bytes, compressed."""

    @property
    def max_records(self) -> int:
        """Largest number of records of a segment."""

    @property
    def max_age(self) -> float:
        """Seconds after its first record."""


@dataclass(frozen=True, slots=True)
class Written:
    """A file of a closed segment."""

    name: str
    """Its name in the store."""
    values: Mapping[str, str]
    """Values that all of its pages have, by the names of `SegmentSpec.partition_by`."""
    path: Path
    rows: int
    size: int
    sha256: str
    index: Path | None = None
    """Its CDXJ; None: the format has none."""

    @property
    def parts(self) -> Mapping[str, Path]:
        """Return the files to put, by their names in the store, in this order."""
        index = {} if self.index is None else {index_name(self.name): self.index}
        return {self.name: self.path, **index}


@dataclass(slots=True)
class _Open:
    """A file that is being written."""

    name: str
    values: Mapping[str, str]
    path: Path
    file: BinaryIO
    writer: PageWriter
    index: CdxjIndex | None = None
    rows: int = 0


class Segment:
    """Consecutive records of one partition, from ``start`` up to ``next``; for one thread."""

    def __init__(
        self,
        start: int,
        *,
        sink: SegmentSpec,
        spool: Spool,
        known: Repeats,
        crawl: Crawl,
        columns: Sequence[Column] = COLUMNS,
        shape: Shape | None = None,
        name: str = "",
    ) -> None:
        """``name`` is that of its files, without folder and extension.

        ``shape`` is of rows that are not the pages themselves.
        """
        self.payloads: KnownPayloads | None = None
        """Payloads that are not stored again; None: all are stored."""
        self._name = name
        self.start = self.next = start
        self.account = Account()
        self.first_ms = 0
        """Time of its first record; 0: it has none."""
        self._sink = sink
        self._spool = spool
        self._known = known
        self._crawl = crawl
        self._columns = columns
        self._shape = shape
        self._files: dict[str, _Open] = {}
        self._ids: dict[bytes, None] = {}
        self._opened_at = time.monotonic()

    def __contains__(self, name: bytes) -> bool:
        """Return whether a page has come before, in this segment or in the kept ids."""
        return name in self._known or name in self._ids

    @property
    def ids(self) -> bytes:
        """Ids of its pages, including pages that are not wanted, one after the other."""
        return b"".join(self._ids)

    @property
    def age_s(self) -> float:
        """Seconds since its first record was read; 0 while it has none."""
        return time.monotonic() - self._opened_at if self.next > self.start else 0.0

    @property
    def is_empty(self) -> bool:
        """Return whether it covers nothing."""
        return self.next == self.start

    def why_full(self) -> str:
        """Return which limit it has reached; empty: none."""
        if self.account.total.read >= self._sink.max_records:
            return "records"
        if len(self._files) >= MOST_FILES:
            return "files"
        if any(each.file.tell() >= self._sink.max_bytes for each in self._files.values()):
            return "bytes"
        if self.age_s >= self._sink.max_age:
            return "age"
        return "spool" if self._files and self._spool.is_short else ""

    def skip(self, offset: int) -> None:
        """Cover what Kafka has deleted before it was read, up to an offset."""
        self.account.total.lost += max(offset - self.next, 0)
        self.next = max(self.next, offset)

    def add(self, judged: Sequence[Judged], up_to: int) -> None:
        """Add the records up to an offset, and cover it. SpoolUnavailable: drop the segment."""
        if self.is_empty:
            self._opened_at = time.monotonic()
        try:
            for each in judged:
                self._add(each)
        except OSError as error:
            raise SpoolUnavailable(f"the spool: {error.strerror}") from error
        self.next = up_to

    def close(self) -> Sequence[Written]:
        """End its files. SpoolUnavailable."""
        try:
            return [self._close(self._files[folder]) for folder in sorted(self._files)]
        except OSError as error:
            raise SpoolUnavailable(f"the spool: {error.strerror}") from error

    def drop(self) -> None:
        """Remove its files from the spool."""
        for each in self._files.values():
            with suppress(OSError):
                each.file.close()
            each.path.unlink(missing_ok=True)
            if each.index is not None:
                each.index.drop()
                index_path(each.path).unlink(missing_ok=True)
        self._files.clear()

    def _add(self, judged: Judged) -> None:
        at_ms = judged.record.timestamp_ms
        self.first_ms = self.first_ms or at_ms
        count = partial(self.account.count, judged.run, at_ms)
        if not judged.id:
            count(judged.outcome, judged.reason)
            return
        # Keep the id of every page: done = read - repeats holds for each of a run.
        name = short(judged.id)
        if isinstance(judged, Repeat) or name in self:
            count("repeats")
            return
        self._ids[name] = None
        marks = Counter(judged.marks)
        if isinstance(judged, Wanted):
            self._write(judged)
            marks.update(self.payloads.take_counts() if self.payloads else {})
        count(judged.outcome, judged.reason, quality=judged.quality, marks=marks)

    def _write(self, judged: Wanted) -> None:
        folder = folder_of(judged.page, self._sink.partition_by)
        if folder not in self._files:
            values = values_of(judged.page, self._sink.partition_by)
            self._files[folder] = self._open(f"{folder}{self._name}.{self._sink.format}", values)
        opened = self._files[folder]
        for value, row in written(judged, self._shape, self._sink.format):
            opened.writer.write(value, row)
            opened.rows += 1

    def _open(self, name: str, values: Mapping[str, str]) -> _Open:
        path, options, index = self._spool.new_file(), {}, None
        if self._sink.format == "warc.gz":
            index = CdxjIndex(path)
            options = {"index": index, "name": name, "payloads": self.payloads}
        file = path.open("wb")
        writer = make_writer(self._sink.format, file, self._crawl, self._columns, **options)
        return _Open(name, values, path, file, writer, index)

    def _close(self, opened: _Open) -> Written:
        opened.writer.close()
        opened.file.close()
        index = None
        if opened.index is not None:
            index = index_path(opened.path)
            with index.open("wb") as file:
                opened.index.write(file)
            opened.index.drop()
        with opened.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = opened.path.stat().st_size
        return Written(
            *(opened.name, opened.values, opened.path, opened.rows),
            size=size,
            sha256=digest,
            index=index,
        )


def index_name(name: str) -> str:
    """Return the name of the index of a WARC file."""
    return f"{name.removesuffix('.warc.gz')}.cdxj"


def index_path(path: Path) -> Path:
    """Return where the index of a file of the spool is."""
    return path.with_suffix(".index")


def written(judged: Wanted, shape: Shape | None, which: str) -> Iterator[tuple[bytes, object]]:
    """Yield the parts of a page for a format: its record, and the source of its columns."""
    if judged.rows is None or shape is None:
        yield judged.value, judged.page
        return
    for row in judged.rows:
        # Formats with columns of their own do without the record, but for its size.
        yield (shape.record(row) if which.startswith("jsonl") else row.value), row


def folder_of(page: Delivered, partition_by: Sequence[str]) -> str:
    """``date=2026-11-21/appid=shop/``: where a page's file is; nothing can lead out of there."""
    values = values_of(page, partition_by)
    return "".join(f"{name}={_encoded(values[name])}/" for name in partition_by)


def values_of(page: Delivered, partition_by: Sequence[str]) -> Mapping[str, str]:
    """Return a page's values of what files are partitioned by."""
    return {name: _value(page, name) for name in partition_by}


def _value(page: Delivered, name: str) -> str:
    if name == "date":
        return page.timestamp.date().isoformat()
    if name == "status_class":
        return f"{page.status_code // 100}xx"
    return str(getattr(page, name))


def _encoded(text: str) -> str:
    value = encode_id(text)
    if len(value) <= _LONGEST_VALUE:
        return value
    return f"{value[:100]}~{hashlib.blake2b(value.encode(), digest_size=8).hexdigest()}"
