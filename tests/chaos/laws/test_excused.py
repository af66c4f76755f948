"""Repeats and losses that a fault explains break no law, and no more than it explains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.laws.good_facts import (
    CRAWL,
    EVENTS,
    FED,
    GOOD,
    RESULTS,
    STRIKE,
    ending,
    instead,
    more,
    result,
    without,
)
from crawlstream_chaos.facts.facts import (
    GOES_BACK,
    endings_told,
)
from crawlstream_chaos.laws.auditor import audit
from crawlstream_chaos.nemesis import FAULTS


@pytest.mark.parametrize("target", ["redis-monitor-1", "redis", "kafka"])
def test_an_ending_may_be_told_again_where_its_telling_was_struck(target: str) -> None:
    """It is one ending, and the report counts both records."""
    strike = replace(STRIKE, target=target, at=8_000)
    facts = replace(more(ending(9_500))(GOOD), strikes=[STRIKE, strike])
    assert audit(facts) == []
    beside = replace(strike, target="kafka-monitor-1")
    assert [v.law for v in audit(replace(facts, strikes=[STRIKE, beside]))] == [
        "an ending is told once"
    ]
    told = "endings told once: 0 of 1 runs, repeats under the same key: 1"
    assert str(endings_told(facts)) == told
    assert (
        str(endings_told(GOOD)) == "endings told once: 1 of 1 runs, repeats under the same key: 0"
    )


def test_what_is_recovered_may_repeat_all() -> None:
    """After Redis was lost, unfinished pages may come again, if they say `recovered`."""
    lost = replace(STRIKE, began_again=True, in_flight=0)
    again = [result(n, 3_500 + n, offset=10 + n, recovered=True) for n in range(3)]
    assert audit(replace(more(*again)(GOOD), strikes=[lost])) == []


def test_a_redis_that_is_an_old_copy_repeats_what_it_has_lost() -> None:
    """All pages of open crawls say so, and no more come again than were done since the copy."""
    cut = replace(STRIKE, fault="power-cut", in_flight=2)
    again = [result(n, 3_500 + n, offset=10 + n, recovered=True) for n in range(3)]
    assert audit(replace(more(*again[:2])(GOOD), strikes=[cut])) == []
    told = audit(replace(more(*again)(GOOD), strikes=[cut]))
    assert [v.law for v in told] == ["repeats are bounded"]


def test_what_an_emptied_shelf_had_need_not_come() -> None:
    """Its pages are reported and counted as failed; a missing page without that is lost."""
    emptied = replace(STRIKE, fault="empty-shelf")
    counted = instead(EVENTS[2], ending(done=5, failed=2, redirected=1))
    facts = replace(without(RESULTS[5])(counted(GOOD)), strikes=[STRIKE, emptied], samples=[])
    assert audit(replace(facts, shelf_lost={CRAWL: 1})) == []
    assert {v.law for v in audit(facts)} == {"nothing is lost", "the ledger adds up"}
    told = audit(replace(facts, shelf_lost={CRAWL: 2}))
    assert [v.law for v in told] == ["the ledger adds up"]


def test_what_redis_forgot_before_a_stop_is_not_done_again() -> None:
    """A delivered page is counted as stopped then, and the start may have no event."""
    stopped = replace(GOOD, fed=[replace(FED, is_stopped=True)], samples=[])
    fewer = ending(9_000, "crawl_stopped", done=4, stopped=2)
    more_than_came = ending(9_000, "crawl_stopped", done=7, admitted=9)
    untold = without(EVENTS[0])(stopped)
    cut = [STRIKE, replace(STRIKE, fault="cut-home")]
    seen = instead(EVENTS[2], fewer)(untold)
    assert {found.law for found in audit(seen)} == {"one ending a run", "the ledger adds up"}
    assert audit(replace(seen, strikes=cut)) == []
    seen = replace(instead(EVENTS[2], more_than_came)(untold), strikes=cut)
    assert [violation.law for violation in audit(seen)] == ["the ledger adds up"]
    assert FAULTS.keys() >= GOES_BACK
