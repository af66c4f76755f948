"""Interface of a sink for a flow, and of the notes that a sink keeps with the pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.records import Batch, OutOfRange
from crawlstream.errors import CrawlstreamError
from pipeline_service.records.account import Account
from pipeline_service.records.judging import Judged, Undeliverable

Begin = Callable[[int], Awaitable[int | None]]
"""Where a partition begins of which nothing is stored; None: at its oldest record."""
SINK_REFUSED = "sink_refused"


class SinkRefused(CrawlstreamError):
    """The store will never take these records: sentences by offset. Nothing was written."""

    def __init__(self, problems: Mapping[int, str]) -> None:
        super().__init__("; ".join(sorted(set(problems.values()))))
        self.problems = problems

    def without(self, judged: Sequence[Judged]) -> Sequence[Judged]:
        """Return the records, refused ones as undelivered."""
        return [self._judged(each) for each in judged]

    def _judged(self, judged: Judged) -> Judged:
        problem = self.problems.get(judged.record.offset)
        if problem is None:
            return judged
        return Undeliverable(
            *(judged.record, judged.id, judged.run, SINK_REFUSED, judged.quality, judged.marks),
            errors=[problem],
        )


@dataclass(frozen=True, slots=True)
class SinkPosition:
    """How far a partition has come."""

    position: int | None
    """The first offset that is not in the store for good; None: nothing is there."""
    account: Account


class PageSink(Protocol):
    """Writes what was judged of batches, each partition in its order."""

    trouble: str
    """Reason why pages cannot be written; empty: they can."""
    stored: int
    """Records that this process has stored, or accounted for."""

    @property
    def topics(self) -> Mapping[int, str]:
        """UUID of the source, by partition whose position is known here."""

    @property
    def standings(self) -> Mapping[int, SinkPosition]:
        """Return how far those partitions are in the store."""

    @property
    def oldest_ms(self) -> int:
        """Time of the oldest record that is read but not in the store for good; 0: none."""

    async def position(self, topic_id: str, number: int) -> int | None:
        """Return the offset to read a partition from, None: its oldest; drops open segments."""

    async def write(self, batch: Batch, judged: Sequence[Judged], live: Liveness) -> int | None:
        """Write what was judged of a batch; answers where to read on if that is elsewhere.

        SinkRefused: call it again without the records that it names.
        """

    def knows(self, number: int, page_id: str) -> bool:
        """Return whether a page of a partition has come before, as far as the memory goes back."""

    async def tick(self, live: Liveness) -> Mapping[int, int]:
        """Finish what is old enough; answers where to read on, by partition, if elsewhere."""

    async def end(self, live: Liveness) -> None:
        """Finish what is open, in an orderly end, and let go of the store."""

    async def skip(self, where: OutOfRange, live: Liveness) -> int:
        """Go on at the oldest record where Kafka has deleted what was to be read next."""


class Kept(Protocol):
    """Notes that a sink keeps with the pages; calls block and raise Unavailable."""

    place: str
    """Where the pages are, for people; without secrets."""

    def standings(self, topic_id: str, numbers: Iterable[int]) -> Mapping[int, SinkPosition]:
        """Return how far partitions have come."""

    def get(self, name: str) -> bytes | None:
        """A small text by its name."""

    def put(self, name: str, value: bytes) -> None:
        """Keep a small text."""

    def names(self, folder: str) -> Sequence[str]:
        """Return the names of all notes below a folder."""

    def close(self) -> None:
        """Let go of the store."""
