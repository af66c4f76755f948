"""Latest pages of families that are put last, and of texts that are frequent.

Neighbours are made up from them. A text has a name like a family, ``=`` and its hash.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from crawlstream_frontier.waste.families import FamilyState, family_hash
from crawlstream_frontier.waste.judging import wants_neighbour
from crawlstream_frontier.waste.sketch import Sketch

TEXT = "="
"""First character of the name of a text; no family begins with it."""
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


def text_of(name: str) -> int | None:
    """Return the hash of a text by its name; None: the name is that of a family."""
    return int(name.removeprefix(TEXT), 16) if name.startswith(TEXT) else None


@dataclass(slots=True)
class Trails:
    """Trails of a site by the names of families."""

    by_name: dict[str, Trail] = field(default_factory=dict)
    _last: frozenset[int] = frozenset()
    """Families that are put last, by their hash."""
    _wanted: frozenset[int] = frozenset()
    """Families of which a neighbour is wanted."""
    _texts: frozenset[int] = frozenset()
    """Frequent texts of which a neighbour is wanted."""

    def see(self, sketch: Sketch, decided: Container[int]) -> None:
        """Take over what is stored, and forget the trails of other families.

        ``decided``: families that persons judge, by their hash.
        """
        families = [each for each in sketch.families if each.key not in decided]
        last = [each for each in families if each.state is FamilyState.LAST]
        self._last = frozenset(each.key for each in last)
        self._wanted = frozenset(each.key for each in last if wants_neighbour(each))
        self._texts = sketch.texts.frequent.untried
        for name in [name for name in self.by_name if not self._is_kept(name)]:
            del self.by_name[name]

    def _is_kept(self, name: str) -> bool:
        text = text_of(name)
        return family_hash(name) in self._last if text is None else text in self._texts

    @property
    def wants_pages(self) -> bool:
        """Return whether pages may be added to any trail."""
        return bool(self._last or self._texts)

    def add(self, families: Iterable[str], url: str, text: int) -> None:
        """Add a page with its text to its trails."""
        if text in self._texts:
            self.by_name.setdefault(f"{TEXT}{text:08x}", Trail()).add(url, text)
        for name in families if self._last else ():
            if family_hash(name) in self._last:
                self.by_name.setdefault(name, Trail()).add(url, text)

    def wanted(self, now: float) -> Iterable[tuple[str, Trail]]:
        """Yield families and texts of which a neighbour is wanted that may be asked for now."""
        for name, trail in self.by_name.items() if self._wanted or self._texts else ():
            is_wanted = family_hash(name) in self._wanted or name.startswith(TEXT)
            if is_wanted and now >= trail.next_at:
                yield name, trail
