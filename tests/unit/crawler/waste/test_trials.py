"""Refused families that another crawl tries again."""

from __future__ import annotations

from dataclasses import replace

from crawling.waste.ballots import Ballot
from crawlstream_frontier.waste.families import (
    Family,
    FamilyState,
    FamilyTable,
    YieldCounts,
    family_hash,
)
from crawlstream_frontier.waste.packing import pack
from crawlstream_frontier.waste.sketch import Sketch
from support.crawler.leases import lease

KEY = family_hash("?sort")


def _see(ballot: Ballot, state: FamilyState) -> None:
    sketch = Sketch()
    sketch.pages = 1
    sketch.families = FamilyTable([Family(key=KEY, counts=YieldCounts(), state=state)])
    ballot.see(pack(sketch, 1), sketch, 0)


def _state(ballot: Ballot) -> FamilyState:
    assert ballot.verdicts is not None
    return ballot.verdicts.states[KEY]


def test_a_crawl_puts_last_what_was_refused_before_it() -> None:
    """A family that the sketch refuses later is refused."""
    ballot = Ballot()
    _see(ballot, FamilyState.REFUSED)
    assert _state(ballot) is FamilyState.REFUSED
    ballot.note_run(lease())
    assert (_state(ballot), ballot.trials.is_news) == (FamilyState.LAST, True)
    _see(ballot, FamilyState.REFUSED)
    assert _state(ballot) is FamilyState.LAST
    _see(ballot, FamilyState.LAST)
    _see(ballot, FamilyState.REFUSED)
    assert _state(ballot) is FamilyState.REFUSED


def test_a_crawl_that_was_seen_before_its_sketch_does_so_as_well() -> None:
    """The first look shows what others have refused."""
    ballot = Ballot()
    ballot.note_run(lease())
    _see(ballot, FamilyState.REFUSED)
    assert (_state(ballot), ballot.trials.is_news) == (FamilyState.LAST, True)


def test_each_run_counts_once() -> None:
    """Another run of a crawl fetches its pages again."""
    ballot, first = Ballot(), lease()
    _see(ballot, FamilyState.LAST)
    for each in (first, first, replace(first, run=first.run + 1)):
        ballot.note_run(each)
        _see(ballot, FamilyState.LAST)
    _see(ballot, FamilyState.REFUSED)
    ballot.note_run(first)
    assert _state(ballot) is FamilyState.REFUSED
