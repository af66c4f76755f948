"""Latest pages of families that are put last, from which neighbours are made up."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from crawlstream_frontier.waste.families import FamilyState, family_hash
from crawlstream_frontier.waste.judging import wants_neighbour
from crawlstream_frontier.waste.sketch import Sketch

_TEXTS = 16
"""Number of the latest texts of a family that are kept."""


@dataclass(slots=True)
class Trail:
    """Pages of one family that this process has fetched since its links are put last."""

    first: str = ""
    """Address of the first page."""
    latest: str = ""
    texts: deque[int] = field(default_factory=lambda: deque[int](maxlen=_TEXTS))
    next_at: float = 0
    """When this process may next try to ask for a neighbour, by its clock."""
    unanswered: int = 0
    """Number of neighbours without an answer."""

    def add(self, url: str, text: int) -> None:
        """Add a page with its text."""
        self.first, self.latest = self.first or url, url
        self.texts.append(text)

    def put_off(self, now: float, pause_s: float, longest_s: float) -> float:
        """Wait longer after each neighbour without an answer; return the seconds."""
        self.unanswered += 1
        pause_s = min(pause_s * 2.0 ** min(self.unanswered, 20), longest_s)
        self.next_at = now + pause_s
        return pause_s


@dataclass(slots=True)
class Trails:
    """Trails of a site by the names of families."""

    by_name: dict[str, Trail] = field(default_factory=dict)
    _last: frozenset[int] = frozenset()
    """Families that are put last, by their hash."""
    _wanted: frozenset[int] = frozenset()
    """Families of which a neighbour is wanted."""

    def see(self, sketch: Sketch, decided: Container[int]) -> None:
        """Take over what is stored, and forget the trails of other families.

        ``decided``: families that persons judge, by their hash.
        """
        families = [each for each in sketch.families if each.key not in decided]
        last = [each for each in families if each.state is FamilyState.LAST]
        self._last = frozenset(each.key for each in last)
        self._wanted = frozenset(each.key for each in last if wants_neighbour(each))
        for name in [name for name in self.by_name if family_hash(name) not in self._last]:
            del self.by_name[name]

    def add(self, families: Iterable[str], url: str, text: int) -> None:
        """Add a page with its text to the trails of its families that are put last."""
        for name in families if self._last else ():
            if family_hash(name) in self._last:
                self.by_name.setdefault(name, Trail()).add(url, text)

    def wanted(self, now: float) -> Iterable[tuple[str, Trail]]:
        """Yield the families of which a neighbour is wanted that may be asked for now."""
        for name, trail in self.by_name.items() if self._wanted else ():
            if now >= trail.next_at and family_hash(name) in self._wanted:
                yield name, trail
