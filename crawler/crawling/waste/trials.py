"""Crawls that act on the verdicts of a site, each of which tries refused families once more.

A family is refused when a crawl has fetched all of it that is worth having. Another crawl has not:
for it, the family is put last, until its own last band has shown that nothing is left.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from crawlstream.model.crawl import Lease
from crawlstream_frontier.waste.families import FamilyState
from crawlstream_frontier.waste.sketch import Sketch

_MOST_CRAWLS = 32
_OWN_S = 10
"""Age of a verdict below which it may be of the same crawl: other crawlers have to read it yet."""


@dataclass(slots=True)
class Trials:
    """Runs of crawls that this process has seen at a site, and what is tried again for them."""

    is_news: bool = False
    """True if a run is to be reported to the sketch."""
    _runs: dict[tuple[object, int], None] = field(default_factory=dict)
    _is_due: bool = False
    """True from the first page of a run until verdicts that are older than it were looked at."""
    _retried: frozenset[int] = frozenset()
    """Families that are refused in the sketch still, and put last here; by their hash."""

    def note(self, lease: Lease) -> bool:
        """Note a page; return True if it is the first one of its run, here."""
        run = (lease.crawl, lease.run)
        if run in self._runs:
            return False
        self._runs[run] = None
        if len(self._runs) > _MOST_CRAWLS:
            del self._runs[next(iter(self._runs))]
        self._is_due = True
        return True

    def of(self, sketch: Sketch) -> frozenset[int]:
        """Return the families that are put last, although a sketch refuses them."""
        refused = frozenset(e.key for e in sketch.families if e.state is FamilyState.REFUSED)
        is_due = self._is_due and time.time() - sketch.changed >= _OWN_S
        self.is_news = self.is_news or (is_due and bool(refused))
        self._retried = refused if is_due else self._retried & refused
        self._is_due = self._is_due and not is_due
        return self._retried
