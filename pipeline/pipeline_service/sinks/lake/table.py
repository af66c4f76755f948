"""Interface of a table of a lake for its sink.

The position of a partition is part of the table: a commit adds files and moves the position, or
changes nothing. A commit names the position that it follows, and is refused if the table has
another one by then. So of all processes that store the records of an offset, one succeeds.

Each position has a random token. It distinguishes two commits up to the same offset: a process
whose commit was not answered recognizes its own, and the account of a position is the one of the
process that has committed it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from crawlstream.store.store import Store

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


class LakeTable(Protocol):
    """A table; calls block, may come from several threads, and raise Unavailable."""

    place: str
    """Where it is, for people; without secrets."""

    @property
    def files(self) -> Store:
        """The folder in which its files are put before they are committed."""

    def open(self) -> None:
        """Make the table where there is none, and add columns if that is wanted. ConfigError."""

    def check(self) -> None:
        """Check that a table that is there can be written; leaves nothing. ConfigError."""

    def position(self, name: str) -> LakePosition | None:
        """Return a position of the newest version; None: there is none, or no table."""

    def commit(self, commit: LakeCommit) -> bool:
        """Add files and move the position, if that is as expected; False: it is another one.

        True also if an earlier call has done so whose answer was lost. The table is never made.
        """

    def dataset(self) -> Any:
        """Return the rows of the newest version as a dataset of Arrow; None: there is no table."""


def owner_of(pipeline: str, edition: int) -> str:
    """Return the beginning of the names of a pipeline's positions."""
    return f"crawlstream/{pipeline}/{edition}"


def position_name(owner: str, partition: str) -> str:
    """Return the name of a partition's position; ``partition`` is ``<topic>-<number>``."""
    return f"{owner}/{partition.replace('-', '/')}"
