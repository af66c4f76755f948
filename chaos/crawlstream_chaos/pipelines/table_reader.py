"""Reads the Delta table of a pipeline from the disk: files that its log names, and notes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crawlstream_chaos.facts.stored import ClaimedSegment
from crawlstream_chaos.pipelines.delta_log import applications, live_files
from crawlstream_chaos.pipelines.store_reader import StoreReader

_TOKEN = "/token"  # noqa: S105  of a position


class TableReader(StoreReader):
    """Reads what one pipeline has stored in a table; only files that its log names count."""

    def has_stored(self, source: Mapping[int, int]) -> bool:
        """Return whether all partitions are in the table up to these offsets."""
        ends = {number: at for _, number, at, _ in self._positions()}
        return all(ends.get(number, 0) >= end for number, end in source.items())

    def _files(self) -> Sequence[str]:
        found = live_files(self._folder)
        names = [str(path.relative_to(self._folder)) for path in found]
        assert len(set(names)) == len(names), "the log names a file twice"
        return sorted(names)

    def _segments(self) -> Sequence[ClaimedSegment]:
        chains = (list(self._chain(*position)) for position in self._positions())
        return [segment for chain in chains for segment in reversed(chain)]

    def _positions(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield topic, partition, next offset and token of each position."""
        found = applications(self._folder)
        for name in sorted(found):
            if not name.endswith(_TOKEN):
                topic, number = name.split("/")[-2:]
                yield topic, int(number), found[name], found[name + _TOKEN]

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
