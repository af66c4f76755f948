"""Verdicts of a sketch, as single URLs are judged by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crawlstream_frontier.waste.families import FamilyState, family_hash
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.votes import HOST, SitePlace

_RARE, _RARER = 32, 128
"""Equal pairs from which fewer links keep what does not matter."""


@dataclass(frozen=True, slots=True)
class SiteVerdicts:
    """Families of a site that are not open, by the hash of their name."""

    main: int
    """Hash of the site's main host."""
    states: Mapping[int, FamilyState]
    dropped: Mapping[int, int]
    """Number of equal pairs of each parameter, or host, that does not matter."""

    @property
    def drops_host(self) -> bool:
        """Return whether the host does not matter."""
        return family_hash(HOST) in self.dropped

    def equal_pairs(self, name: str) -> int | None:
        """Return the number of equal pairs of a family that is dropped; None: it is not."""
        return self.dropped.get(family_hash(name))

    def worst(self, place: SitePlace) -> tuple[FamilyState, str]:
        """Return the worst state of the families of a URL, and the first family with it."""
        state, family = FamilyState.OPEN, ""
        for name in place.families_at(self.main):
            found = self.states.get(family_hash(name), FamilyState.OPEN)
            if found > state:
                state, family = found, name
        return state, family


def verdicts_of(sketch: Sketch) -> SiteVerdicts | None:
    """Return the verdicts of a sketch; None if all its families are open."""
    states = {each.key: each.state for each in sketch.families if each.state > FamilyState.OPEN}
    dropped = {each.key: each.eq for each in sketch.families if each.is_dropped}
    return SiteVerdicts(sketch.main, states, dropped) if states or dropped else None


def exception_of(equal_pairs: int) -> int:
    """Return the number of links of which one keeps what does not matter, as evidence.

    A link that keeps its session id is a new page each time, so it becomes rarer as pairs agree.
    """
    if equal_pairs < _RARE:
        return _RARE
    return _RARER if equal_pairs < _RARER else 4 * _RARER
