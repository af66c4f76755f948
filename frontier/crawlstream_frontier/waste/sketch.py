"""Sketch of a site: the sum of the votes of its pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from crawlstream_frontier.waste.families import (
    MOST_RELEASES,
    Family,
    FamilyState,
    FamilyTable,
    VerdictChange,
    YieldCounts,
)
from crawlstream_frontier.waste.judging import age, answer, judge
from crawlstream_frontier.waste.pairs import PairSample, count_pair
from crawlstream_frontier.waste.texts import Kind, SiteTexts
from crawlstream_frontier.waste.votes import HOST, NeighbourAnswer, PageVote, TextAnswer, Vote

_CALM_AFTER = 512
"""Pages without a verdict after which fewer pages of a site are looked at."""
_RELEASED_AGAIN_S = 86_400
"""Time without a change of a verdict after which earlier releases do not count."""
_COUNTED = {kind: kind.value for kind in Kind}
"""Counters of the families of a page, by its kind."""
_CREDITED = {Kind.FRESH: "credit_fresh", Kind.MAYBE: "credit_maybe"}
"""Counters of the families of the page that linked to it."""
_OPEN, _FRESH = FamilyState.OPEN, Kind.FRESH
LARGEST_NUMBER = 0xFFFFFFFF
MOST_RUNS = 4


@dataclass(slots=True)
class Merged:
    """Changes that votes have made."""

    asks: bool = False
    """True if sites are asked for made-up neighbours."""
    now: int = 0
    """Epoch seconds."""
    changes: list[VerdictChange] = field(default_factory=list)
    kinds: Counter[Kind] = field(default_factory=Counter)
    """Pages by what their text was."""


class Sketch:
    """State of a site. It is empty before the first vote."""

    def __init__(self) -> None:
        self.pages = 0
        """Votes so far."""
        self.main = 0
        """Hash of the site's main host: that of its first page."""
        self.has_two_hosts = False
        self.changed = 0
        """Epoch seconds of the latest change of a verdict."""
        self.since = 0
        """Votes at the latest change of a verdict."""
        self.runs: list[int] = []
        """Latest runs that have acted on the verdicts, by their hash; the last one began last."""
        self.texts = SiteTexts()
        self.pairs = PairSample()
        self.families = FamilyTable()

    @property
    def is_calm(self) -> bool:
        """Return whether nothing is decided, and has not been for long."""
        return self.pages - self.since >= _CALM_AFTER and all(f.is_plain for f in self.families)

    def merge(self, votes: Sequence[Vote], now: int, *, asks: bool = False) -> Merged:
        """Add votes, in their order; ``now`` in epoch seconds.

        ``asks``: whether sites are asked for made-up neighbours.
        """
        merged = Merged(asks, now)
        for vote in votes:
            before = len(merged.changes)
            if isinstance(vote, PageVote):
                self._add(vote, merged)
            elif isinstance(vote, NeighbourAnswer):
                self._answer(vote, merged)
            elif isinstance(vote, TextAnswer):
                self.texts.frequent.answer(vote.text, is_there=vote.is_there)
            else:
                self._begin(vote.run, merged)
            if len(merged.changes) > before:
                self.changed, self.since = now, self.pages
        return merged

    def _add(self, vote: PageVote, merged: Merged) -> None:
        if not self.pages:
            self.main = vote.place.host
        self.pages = min(self.pages + 1, LARGEST_NUMBER)
        self.has_two_hosts = self.has_two_hosts or vote.place.host != self.main
        self._compare(vote, merged)
        kind = self._kind_of(vote)
        merged.kinds[kind] += 1
        names = vote.place.families_at(self.main)
        own = [self.families.of(name) for name in names]
        for family in [each for each in own if each.state is _OPEN] or own:
            if family.state is _OPEN or vote.from_last or kind is _FRESH:
                family.counts.add("pages")
                family.counts.add(_COUNTED[kind])
                self._judge(family, merged)
        if vote.parent and (credit := _CREDITED.get(kind)):
            for name in vote.parent.families_at(self.main):
                if name not in names:
                    family = self.families.of(name)
                    family.counts.add(credit)
                    self._judge(family, merged)

    def _answer(self, answered: NeighbourAnswer, merged: Merged) -> None:
        if self.families.known(answered.family):
            family = self.families.of(answered.family)
            answer(family, is_there=answered.is_there)
            self._judge(family, merged)

    def _begin(self, run: int, merged: Merged) -> None:
        """Put families last that are refused, if a run is new: it has not fetched their pages."""
        if run in self.runs:
            return
        self.runs = [*self.runs, run][-MOST_RUNS:]
        for family in self.families:
            if family.state is FamilyState.REFUSED:
                _turn(family, FamilyState.LAST, merged)

    def _kind_of(self, vote: PageVote) -> Kind:
        if not vote.is_there:
            return Kind.HEAVY
        return Kind.MAYBE if vote.text is None else self.texts.add(vote.text, vote.address)

    def _compare(self, vote: PageVote, merged: Merged) -> None:
        """Compare a page with those whose address differs in one part."""
        if vote.text is None or not vote.is_there:
            return
        for pair in vote.pairs:
            if pair.family == HOST and not self.has_two_hosts:
                continue
            is_equal = self.pairs.compare(pair, vote.text >> 8)
            if is_equal is not None:
                family = self.families.of(pair.family)
                before = family.verdict
                count_pair(family, is_equal=is_equal)
                _note(family, before, merged)

    def _judge(self, family: Family, merged: Merged) -> None:
        modulus = self.texts.sample.modulus
        state = judge(family, modulus, asks=merged.asks)
        if state is FamilyState.OPEN:
            state = self._released(family, merged.now)
        if state is None or state is family.state:
            age(family, modulus)
            return
        _turn(family, state, merged)

    def _released(self, family: Family, now: int) -> FamilyState:
        """Return the state of a family that brings new pages again.

        One that has been released often stays last for a day: its site may answer in turns.
        """
        if now - self.changed >= _RELEASED_AGAIN_S:
            family.releases = 0
        family.is_confirmed = False
        if family.releases == MOST_RELEASES:
            return FamilyState.LAST
        family.releases += 1
        return FamilyState.OPEN


def _turn(family: Family, state: FamilyState, merged: Merged) -> None:
    before = family.verdict
    family.state = state
    _note(family, before, merged)
    family.counts = YieldCounts()


def _note(family: Family, before: str, merged: Merged) -> None:
    """Note a change of verdict, with the counters that led to it."""
    if family.verdict == before:
        return
    counts = {**asdict(family.counts), "eq": family.eq, "ne": family.ne}
    change = VerdictChange(family=family.shown, before=before, after=family.verdict, counts=counts)
    merged.changes.append(change)
