"""A table of a lake, as its sink and its notes use it.

The position of a partition is part of the table: a commit adds files and moves the position, or
changes nothing. A commit names the position that it follows, and is refused if the table has
another one by then. So of all processes that store the records of an offset, one succeeds.

Each position has a random token. It distinguishes two commits up to the same offset: a process
whose commit was not answered recognizes its own, and the account of a position is the one of the
process that has committed it.

A format says how a version is loaded, checked and extended. The order of these steps is here: the
position is compared on the loaded version to which the commit is made, and only the log or the
catalog decides whether another commit was first.
"""

from __future__ import annotations

import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from crawlstream.errors import ConfigError
from crawlstream.store.store import Store, StoreUnavailable
from crawlstream.wire import jsontext
from pipeline_service.spec.lake import LakeSpec

V = TypeVar("V")
"""A loaded version of a table, as the library of its format has it."""
_ATTEMPTS = 20
"""Maximum commits of other writers that one call follows."""

_TOKEN_BITS = 53
"""A number of JSON has no more for some readers."""


@dataclass(frozen=True, slots=True)
class LakePosition:
    """How far a partition is."""

    next: int
    """The first offset that is not in the table."""
    token: int
    """Random number of the commit."""

    @classmethod
    def new(cls, next_offset: int) -> LakePosition:
        """Return a position that no other process has."""
        return cls(next_offset, secrets.randbits(_TOKEN_BITS))

    @property
    def name(self) -> str:
        """Name in which no two positions are equal; they sort by offset."""
        return f"{self.next:020}-{self.token:014x}"

    @classmethod
    def of_name(cls, name: str) -> LakePosition:
        """Return the position that has this name; ValueError."""
        next_offset, _, token = name.partition("-")
        return cls(int(next_offset), int(token, 16))


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFile:
    """A Parquet file that is complete in the table's folder."""

    name: str
    """Its name, relative to that folder."""
    path: Path
    """Path of the same file in the spool, for its statistics."""
    size: int
    """Bytes."""
    values: Mapping[str, str]
    """Values of the columns by which the table is partitioned; the file does not have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeCommit:
    """Files to add, and the position to move, in one step."""

    name: str
    """Name of the position: of one pipeline, edition and partition."""
    expected: LakePosition | None
    """The position that it follows; None: there is none."""
    position: LakePosition
    files: Sequence[LakeFile]
    about: Mapping[str, str]
    """For people who look at the table's history."""


class LakeColumn(NamedTuple):
    """A column of a table."""

    kind: object
    """Its type, for comparison."""
    shown: str
    """Its type, for people."""
    is_required: bool


class LakeTable(ABC, Generic[V]):
    """A table; calls block, may come from several threads, and raise Unavailable."""

    elsewhere: ClassVar[str] = "name another url"
    """Advice if the table cannot be used."""
    missing: ClassVar[tuple[type[Exception], ...]]
    """Errors of the library if there is no table."""
    refused: ClassVar[type[Exception]]
    """Error of the library if another commit was first."""

    def __init__(self, place: str, spec: LakeSpec) -> None:
        """``place``: where the table is, for people; without secrets."""
        self.place = place
        self.files = Store.at(spec.url)
        """The folder in which its files are put before they are committed."""
        self._spec = spec
        self._turn = threading.Lock()

    def open(self) -> None:
        """Make the table where there is none, and add columns if that is wanted. ConfigError."""
        with self._asked("open"):
            table = self._load()
            if table is None:
                table = self._make()
            if lacking := self._lacking(table):
                self._extend(table, lacking)

    def check(self) -> None:
        """Check that a table that is there can be written; leaves nothing. ConfigError."""
        with self._asked("read"):
            if (table := self._load()) is not None:
                self._lacking(table)

    def position(self, name: str) -> LakePosition | None:
        """Return a position of the newest version; None: there is none, or no table."""
        with self._asked("read"):
            table = self._load()
            return None if table is None else self._position(table, name)

    def commit(self, commit: LakeCommit) -> bool:
        """Add files and move the position, if that is as expected; False: it is another one.

        True also if an earlier call has done so whose answer was lost. The table is never made.
        """
        with self._asked("commit to"):
            for _ in range(_ATTEMPTS):
                table = self._loaded()
                found = self._position(table, commit.name)
                if found == commit.position:
                    return True
                if found != commit.expected:
                    return False
                self._check_partitions(table)
                with suppress(self.refused):
                    self._add(table, commit)
                    return True
        raise StoreUnavailable(f"other writers changed the {self.place} before each attempt")

    def dataset(self) -> Any:
        """Return the rows of the newest version as a dataset of Arrow; None: there is no table."""
        with self._asked("read"):
            table = self._load()
            return None if table is None else self._rows(table)

    @abstractmethod
    def _loaded(self) -> V:
        """Return the newest version."""

    @abstractmethod
    def _make(self) -> V:
        """Make the table, or return what another process has made meanwhile."""

    @abstractmethod
    def _check(self, table: V) -> None:
        """Check what only this format has. ConfigError."""

    @abstractmethod
    def _columns_of(self, table: V | None) -> Mapping[str, LakeColumn]:
        """Return the columns of a version; None: those of a new table."""

    @abstractmethod
    def _partitions_of(self, table: V) -> Sequence[str]:
        """Return the columns by which it is partitioned. ConfigError: not by whole values."""

    @abstractmethod
    def _extend(self, table: V, names: Sequence[str]) -> None:
        """Add columns of a new table to a version."""

    @abstractmethod
    def _position(self, table: V, name: str) -> LakePosition | None:
        """Return a position of a version."""

    @abstractmethod
    def _add(self, table: V, commit: LakeCommit) -> None:
        """Commit to this version; `refused` if it is not the newest one and that matters."""

    @abstractmethod
    def _rows(self, table: V) -> Any:
        """Return the rows of a version as a dataset of Arrow."""

    def _forget(self) -> None:
        """Drop a loaded version that is kept, after an error."""

    def _load(self) -> V | None:
        """Return the newest version; None if there is no table."""
        try:
            return self._loaded()
        except self.missing:
            return None

    def _lacking(self, table: V) -> Sequence[str]:
        """Return the columns that are to be added. ConfigError: the table is unsuitable."""
        self._check(table)
        self._check_partitions(table)
        there, wanted = self._columns_of(table), self._columns_of(None)
        for name, column in there.items():
            if name not in wanted and column.is_required:
                raise ConfigError(
                    f"the {self.place} needs a value of {name}, which no page has: make the column"
                    f" optional, or {self.elsewhere}"
                )
            if name in wanted and column.kind != wanted[name].kind:
                raise ConfigError(
                    f"the column {name} of the {self.place} has the type {column.shown}, expected"
                    f" {wanted[name].shown}: {self.elsewhere}"
                )
        lacking = [name for name in wanted if name not in there]
        if lacking and not self._spec.migrate:
            raise ConfigError(
                f"the {self.place} lacks the columns {', '.join(lacking)}: set migrate = true to"
                f" add them, or {self.elsewhere}"
            )
        return lacking

    def _check_partitions(self, table: V) -> None:
        """Check that files have the partitions of the table. ConfigError."""
        names = self._partitions_of(table)
        if sorted(names) != sorted(self._spec.partition_by):
            there = jsontext.dumps(list(names)).decode()
            raise ConfigError(
                f"the {self.place} is partitioned by {there}: set partition_by = {there}, or"
                f" {self.elsewhere}"
            )

    @contextmanager
    def _asked(self, what: str) -> Iterator[None]:
        """Take turns, and raise errors of the library as StoreUnavailable: the work must wait."""
        with self._turn:
            try:
                yield
            except (ConfigError, StoreUnavailable):
                raise
            except Exception as error:
                self._forget()
                why = (str(error) or type(error).__name__).splitlines()[0]
                raise StoreUnavailable(f"cannot {what} the {self.place}: {why:.300}") from error


def owner_of(pipeline: str, edition: int) -> str:
    """Return the beginning of the names of a pipeline's positions."""
    return f"crawlstream/{pipeline}/{edition}"


def position_name(owner: str, partition: str) -> str:
    """Return the name of a partition's position; ``partition`` is ``<topic>-<number>``."""
    return f"{owner}/{partition.replace('-', '/')}"
