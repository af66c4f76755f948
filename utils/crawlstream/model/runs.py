"""The states of runs as Kafka remembers them, for the day when Redis is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from crawlstream.model.crawl import CrawlKey, FiringKey

RUNNING, STOP, PAUSE, RESUME = "running", "stop", "pause", "resume"
REMEMBERED = frozenset({STOP, PAUSE, RESUME})
"""The steering that Kafka remembers: what a crawl was told, beside the states of its runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMark:
    """What became of a run, or what a crawl was told: to stop, to pause, to resume."""

    crawl: CrawlKey
    state: str
    """``running``, how a run ended (``finished``, ``stopped``, ``expired``), or what was told."""
    run: int = 0
    """0 for what was told, which means whatever ran before it."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """By ``<topic UUID>:<partition>``: of a running run the first offsets that can be its own; of
    an ended one and of what was told the offsets behind the last that it covers."""
    at_ms: int = 0
    """Time of the record that told it."""
    firing: FiringKey | None = None
    """The latest firing of a schedule that has fed a run which is over."""
    seen: Mapping[int, bytes] = field(default_factory=dict)
    """Bits of the records of that firing that took effect, by part."""
    remember: int | None = None
    """Of a running run, how long what its crawl has seen outlives it, in seconds, if seeds of runs
    before it have said so."""
    until: int = 0
    """When a pause ends by itself, in epoch seconds; 0: it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What a new or restored Redis is told of a crawl."""

    crawl: CrawlKey
    run: int
    """The latest that Kafka knows of."""
    is_over: bool
    is_paused: bool = False
    remember: int | None = None
    paused_until: int = 0
    """As of the mark of the pause."""


class Past:
    """What had been done in a Redis that is lost, as far as Kafka remembers."""

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
        """The highest run number that was given."""
        return max((mark.run for mark in self._latest.values()), default=0)

    def unfinished(self) -> dict[CrawlKey, int]:
        """Number of the run under way, by crawl."""
        return {fate.crawl: fate.run for fate in self.fates() if not fate.is_over}

    def fates(self) -> list[Fate]:
        """What became of each crawl that Kafka remembers a run of."""
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
        return _comes_after(self._stops.get(mark.crawl), mark)

    def _pause_of(self, mark: RunMark) -> RunMark | None:
        """What paused a run, unless it was resumed."""
        told = self._pauses.get(mark.crawl)
        return told if told and told.state == PAUSE and _comes_after(told, mark) else None


def _order(mark: RunMark) -> tuple[int, bool, int]:
    """The greatest mark counts, and an ending is final.

    Of what a dead monitor had in its hands another one may tell
    that a run began after the world was told that it ended.
    """
    return mark.run, mark.state != RUNNING, mark.at_ms


def _comes_after(told: RunMark | None, running: RunMark) -> bool:
    """Whether a run was under way when its crawl was told something."""
    places = told.positions.items() if told else ()
    return any(running.positions.get(place, 0) < until for place, until in places)
