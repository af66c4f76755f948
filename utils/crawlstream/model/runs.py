"""The states of runs as Kafka remembers them, for the day when Redis is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from crawlstream.model.crawl import CrawlKey

RUNNING, STOP = "running", "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMark:
    """What became of a run, or that a crawl was told to stop."""

    crawl: CrawlKey
    state: str
    """``running``, how a run ended (``finished``, ``stopped``, ``expired``), or ``stop``."""
    run: int = 0
    """0 for ``stop``, which means whatever ran before it."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """By ``<topic UUID>:<partition>``: of a running run the first offsets that can be its own; of
    an ended one and of a stop the offsets behind the last that it covers."""
    at_ms: int = 0
    """Time of the record of a stop."""


class Past:
    """What had been done in a Redis that is lost, as far as Kafka remembers."""

    def __init__(self, marks: Iterable[RunMark]) -> None:
        self._latest: dict[CrawlKey, RunMark] = {}
        self._stops: dict[CrawlKey, RunMark] = {}
        for mark in marks:
            kept = self._stops if mark.state == STOP else self._latest
            former = kept.get(mark.crawl)
            if former is None or (mark.run, mark.at_ms) >= (former.run, former.at_ms):
                kept[mark.crawl] = mark

    @property
    def floor(self) -> int:
        """The highest run number that was given."""
        return max((mark.run for mark in self._latest.values()), default=0)

    def unfinished(self) -> dict[CrawlKey, int]:
        """Number of the run under way, by crawl."""
        return {
            crawl: mark.run
            for crawl, mark in self._latest.items()
            if mark.state == RUNNING and not self._was_stopped(mark)
        }

    def is_over(self, crawl: CrawlKey, place: str, *, offset: int, at_ms: int) -> bool:
        """Whether a seed's run has come to its end, so that the seed is not to be crawled again.

        A stop covers what stands before it in its own partition, and what is older elsewhere.
        """
        stop = self._stops.get(crawl)
        if stop and (
            offset < stop.positions[place] if place in stop.positions else at_ms < stop.at_ms
        ):
            return True
        latest = self._latest.get(crawl)
        return latest is not None and offset < latest.positions.get(place, 0)

    def _was_stopped(self, mark: RunMark) -> bool:
        stop = self._stops.get(mark.crawl)
        places = stop.positions.items() if stop else ()
        return any(mark.positions.get(place, 0) < until for place, until in places)
