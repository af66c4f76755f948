"""Verdicts of a sketch, as single URLs are judged by them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from crawlstream_frontier.waste.families import FamilyState, family_hash
from crawlstream_frontier.waste.persons import PersonWord, PersonWords
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.votes import HOST, SitePlace

_NOBODY: PersonWords = {}
_OPEN = FamilyState.OPEN
_RARE, _RARER = 32, 128
"""Equal pairs from which fewer links keep what does not matter."""


@dataclass(frozen=True, slots=True)
class SiteVerdicts:
    """Families of a site that are not open, by the hash of their name."""

    main: int | None
    """Hash of the site's main host; None: not known."""
    states: Mapping[int, FamilyState]
    dropped: Mapping[int, int]
    """Number of equal pairs of each parameter, or host, that does not matter."""
    by_persons: PersonWords = field(default_factory=dict)
    """Verdicts of persons on families of the site."""

    @property
    def drops_host(self) -> bool:
        """Return whether the host does not matter."""
        return family_hash(HOST) in self.dropped

    def equal_pairs(self, name: str) -> int | None:
        """Return the number of equal pairs of a family that is dropped; None: it is not."""
        return self.dropped.get(family_hash(name))

    def allows(self, name: str) -> bool:
        """Return whether a person allows a family."""
        return bool(self.by_persons) and self.by_persons.get(family_hash(name)) == PersonWord.ALLOW

    def is_sure(self, name: str) -> bool:
        """Return whether a person has refused a family: none of its links is tried again."""
        return family_hash(name) in self.by_persons

    def worst(self, place: SitePlace) -> tuple[FamilyState, str]:
        """Return the worst state of the families of a URL, and the first family with it."""
        state, family = _OPEN, ""
        main = self.main
        names = place.families if main is None else place.families_at(main)
        for name in names:
            found = self.states.get(family_hash(name), _OPEN)
            if found > state:
                state, family = found, name
        return state, family


def verdicts_of(
    sketch: Sketch, by_persons: PersonWords = _NOBODY, retried: Collection[int] = ()
) -> SiteVerdicts | None:
    """Return the verdicts of a sketch, and of persons, who prevail; None if there are none.

    ``retried``: families that are put last at most, by their hash, unless a person refuses them.
    """
    learned = [each for each in sketch.families if each.key not in by_persons]
    states = {
        each.key: FamilyState.LAST if each.key in retried else each.state
        for each in learned
        if each.state > FamilyState.OPEN
    }
    dropped = {each.key: each.eq for each in learned if each.is_dropped}
    if not (states or dropped or by_persons):
        return None
    refused = [key for key, verdict in by_persons.items() if verdict == PersonWord.REFUSE]
    states |= dict.fromkeys(refused, FamilyState.REFUSED)
    return SiteVerdicts(sketch.main if sketch.pages else None, states, dropped, by_persons)


def exception_of(equal_pairs: int) -> int:
    """Return the number of links of which one keeps what does not matter, as evidence.

    A link that keeps its session id is a new page each time, so it becomes rarer as pairs agree.
    """
    if equal_pairs < _RARE:
        return _RARE
    return _RARER if equal_pairs < _RARER else 4 * _RARER
