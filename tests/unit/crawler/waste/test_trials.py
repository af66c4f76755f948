"""Refused families that another run tries again."""

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


def _see(ballot: Ballot, state: FamilyState, *runs: int) -> None:
    sketch = Sketch()
    sketch.pages, sketch.runs = 1, list(runs)
    sketch.families = FamilyTable([Family(key=KEY, counts=YieldCounts(), state=state)])
    ballot.see(pack(sketch, 1), sketch, 0)


def _state(ballot: Ballot) -> FamilyState:
    assert ballot.verdicts is not None
    return ballot.verdicts.states[KEY]


def test_a_run_puts_last_what_was_refused_before_it() -> None:
    """A family is refused once the sketch knows the run."""
    ballot = Ballot()
    _see(ballot, FamilyState.REFUSED)
    assert _state(ballot) is FamilyState.REFUSED
    run = ballot.note_run(lease())
    assert run is not None
    assert (_state(ballot), ballot.trials.new) == (FamilyState.LAST, (run,))
    _see(ballot, FamilyState.REFUSED)
    assert (_state(ballot), ballot.trials.new) == (FamilyState.LAST, (run,))
    _see(ballot, FamilyState.REFUSED, run)
    assert (_state(ballot), ballot.trials.new) == (FamilyState.REFUSED, ())


def test_a_restarted_crawler_relies_on_what_its_run_has_refused() -> None:
    """Refuses at once, if it sees the sketch before or after the first page."""
    run = Ballot().note_run(lease())
    assert run is not None
    for sees_first in (True, False):
        ballot = Ballot()
        if sees_first:
            _see(ballot, FamilyState.REFUSED, 7, run)
        assert ballot.note_run(lease()) == run
        _see(ballot, FamilyState.REFUSED, 7, run)
        assert (_state(ballot), ballot.trials.new) == (FamilyState.REFUSED, ())


def test_each_run_counts_once() -> None:
    """Another run of a crawl fetches its pages again."""
    ballot, first = Ballot(), lease()
    runs = [ballot.note_run(each) for each in (first, first, replace(first, run=first.run + 1))]
    assert runs[1] is None
    assert len({*runs}) == 3
