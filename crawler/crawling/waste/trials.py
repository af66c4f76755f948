"""Runs that act on the verdicts of a site, each of which tries refused families once more.

A family is refused when a run has fetched all of it that is worth having. Another run has not: for
it, the family is put last, until its own last band has shown that nothing is left. The sketch knows
the latest runs, so all crawlers of a run rely on what it has refused, restarted ones as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crawlstream.model.crawl import CrawlKey, Lease
from crawlstream_frontier.waste.families import FamilyState
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.votes import run_hash

_MOST_RUNS = 32
_NONE = frozenset[int]()


@dataclass(slots=True)
class Trials:
    """Runs that this process has seen at a site."""

    _seen: dict[tuple[CrawlKey, int], None] = field(default_factory=dict)
    _new: set[int] = field(default_factory=set)
    """Runs that no sketch has shown since, by their hash."""

    def note(self, lease: Lease) -> int | None:
        """Note a page; return the hash of its run if it is the first one of that, here."""
        run = (lease.crawl, lease.run)
        if run in self._seen:
            return None
        self._seen[run] = None
        if len(self._seen) > _MOST_RUNS:
            del self._seen[next(iter(self._seen))]
        hashed = run_hash(*run)
        self._new.add(hashed)
        return hashed

    def of(self, sketch: Sketch) -> frozenset[int]:
        """Return the families that are put last, although a sketch refuses them, by their hash."""
        self._new.difference_update(sketch.runs)
        if not self._new:
            return _NONE
        return frozenset(e.key for e in sketch.families if e.state is FamilyState.REFUSED)

    @property
    def new(self) -> tuple[int, ...]:
        """Return the runs to report to the sketch."""
        return tuple(self._new)
