"""The states of runs that Kafka stores, to restore them after a loss of Redis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from crawlstream.model.crawl import CrawlKey, FiringKey

RUNNING, STOP, PAUSE, RESUME = "running", "stop", "pause", "resume"
REMEMBERED = frozenset({STOP, PAUSE, RESUME})
"""Commands to crawls that Kafka stores besides the states of runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMark:
    """State of a run, or a command to a crawl: stop, pause or resume."""

    crawl: CrawlKey
    state: str
    """``running``, the end of a run (``finished``, ``stopped``, ``expired``), or the command."""
    run: int = 0
    """Number of the run; 0 for a command, which applies to all runs before it."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """Offsets by ``<topic UUID>:<partition>``. Of a running run: the first that can belong to it.
    Of an ended run and of a command: the offset after the last that it covers."""
    at_ms: int = 0
    """Time of its record."""
    firing: FiringKey | None = None
    """Latest firing of a schedule that fed the ended run."""
    seen: Mapping[int, bytes] = field(default_factory=dict)
    """Bits of those records of that firing that took effect, by part."""
    remember: int | None = None
    """Seconds for which the seen pages of the crawl outlive a running run, if seeds of earlier runs
    have set it."""
    until: int = 0
    """End of a pause in epoch seconds; 0: it does not end by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """State of a crawl for a new or restored Redis."""

    crawl: CrawlKey
    run: int
    """Latest run that Kafka has."""
    is_over: bool
    is_paused: bool = False
    remember: int | None = None
    paused_until: int = 0
    """End of the pause, from its mark."""


class Past:
    """States of the crawls in a Redis that was lost, as far as Kafka stores them."""

    def __init__(self, marks: Iterable[RunMark]) -> None:
        self._latest: dict[CrawlKey, RunMark] = {}
        self._stops: dict[CrawlKey, RunMark] = {}
        self._pauses: dict[CrawlKey, RunMark] = {}
        of_state = {STOP: self._stops, PAUSE: self._pauses, RESUME: self._pauses}
        for mark in marks:
            kept = of_state.get(mark.state, self._latest)
            former = kept.get(mark.crawl)
            if former is None or _order(mark) >= _order(former):
                kept[mark.crawl] = mark

    @property
    def floor(self) -> int:
        """Return the highest run number that was assigned."""
        return max((mark.run for mark in self._latest.values()), default=0)

    def unfinished(self) -> dict[CrawlKey, int]:
        """Return the number of the current run, by crawl."""
        return {fate.crawl: fate.run for fate in self.fates() if not fate.is_over}

    def fates(self) -> list[Fate]:
        """Return the state of each crawl of which Kafka has a run."""
        return [
            Fate(
                crawl=crawl,
                run=mark.run,
                is_over=mark.state != RUNNING or self._was_stopped(mark),
                is_paused=(pause := self._pause_of(mark)) is not None,
                paused_until=pause.until if pause else 0,
                remember=mark.remember,
            )
            for crawl, mark in self._latest.items()
        ]

    def is_over(self, crawl: CrawlKey, place: str, *, offset: int, at_ms: int) -> bool:
        """Return whether a seed's run has ended, so that the seed must not be crawled again.

        A stop covers records before it in its own partition, and older records in others.
        """
        stop = self._stops.get(crawl)
        if stop and (
            offset < stop.positions[place] if place in stop.positions else at_ms < stop.at_ms
        ):
            return True
        latest = self._latest.get(crawl)
        return latest is not None and offset < latest.positions.get(place, 0)

    def _was_stopped(self, mark: RunMark) -> bool:
        return _comes_after(self._stops.get(mark.crawl), mark)

    def _pause_of(self, mark: RunMark) -> RunMark | None:
        """Return the mark that paused a run; None: it is not paused."""
        told = self._pauses.get(mark.crawl)
        return told if told and told.state == PAUSE and _comes_after(told, mark) else None


def _order(mark: RunMark) -> tuple[int, bool, int]:
    """Return a sort key of marks of a crawl: the greatest mark counts, and an end is final.

    After a monitor dies with a record in flight, another one may publish the start of a run after
    its end was published.
    """
    return mark.run, mark.state != RUNNING, mark.at_ms


def _comes_after(told: RunMark | None, running: RunMark) -> bool:
    """Return whether a run had begun before a command to its crawl."""
    places = told.positions.items() if told else ()
    return any(running.positions.get(place, 0) < until for place, until in places)
