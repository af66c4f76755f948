"""Reads a table of a lake from the disk: files that its log names, and notes next to it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from crawlstream_chaos.facts.stored import ClaimedSegment
from crawlstream_chaos.pipelines.store_reader import StoreReader


class TableLog(Protocol):
    """Log of a table, of any format."""

    def files(self) -> Sequence[Path]:
        """Return the files whose rows are in the table, each as often as it is named."""

    def positions(self) -> Mapping[str, tuple[int, int]]:
        """Return next offset and token by the name of a position."""


class TableReader(StoreReader):
    """Reads what one pipeline has stored in a table; only files that its log names count."""

    def __init__(
        self, pipeline: str, folder: Path, log: TableLog, *, statuses: Collection[int]
    ) -> None:
        super().__init__(pipeline, folder, statuses=statuses)
        self._log = log

    def has_stored(self, source: Mapping[int, int]) -> bool:
        """Return whether all partitions are in the table up to these offsets."""
        ends = {number: at for _, number, at, _ in self._positions()}
        return all(ends.get(number, 0) >= end for number, end in source.items())

    def _files(self) -> Sequence[str]:
        names = [str(path.relative_to(self._folder)) for path in self._log.files()]
        assert len(set(names)) == len(names), "the log names a file twice"
        return sorted(names)

    def _segments(self) -> Sequence[ClaimedSegment]:
        chains = (list(self._chain(*position)) for position in self._positions())
        return [segment for chain in chains for segment in reversed(chain)]

    def _positions(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield topic, partition, next offset and token of each position."""
        for name, (at, token) in sorted(self._log.positions().items()):
            topic, number = name.split("/")[-2:]
            yield topic, int(number), at, token

    def _chain(self, topic: str, partition: int, at: int, token: int) -> Iterator[ClaimedSegment]:
        """Yield the segments of a partition, the last one first."""
        folder = self._folder / "_crawlstream" / self.pipeline / "_log" / f"{topic}-{partition:05}"
        position: Sequence[int] | None = (at, token)
        while position is not None:
            note = folder / f"{position[0]:020}-{position[1]:014x}.json"
            told: Any = json.loads(note.read_bytes())
            yield ClaimedSegment(
                partition=partition,
                start=told["start"],
                next=told["next"],
                files={name: about["rows"] for name, about in told["files"].items()},
                account={name: told[name] for name in ("total", "runs")},
            )
            position = told["previous"]
