"""The auditor and pages that a Redis has forgotten at the end of their run.

They come again in the next run of their crawl, under ids of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest

from chaos.laws.good_facts import (
    COUNTERS,
    EVENTS,
    FED,
    GOOD,
    RESULTS,
    STRIKE,
    ending,
    fired,
    instead,
    of_run,
    result,
)
from crawlstream_chaos.facts.facts import Facts, Strike, TopicRecord
from crawlstream_chaos.laws.auditor import audit

SECOND_MS = 10_000
"""So much later than the first run begins the second."""
CUT = replace(STRIKE, fault="power-cut", target="redis-0", at=9_100)
WIPE = replace(STRIKE, fault="wipe-partition", target="redis-0", at=12_000, seconds=0.5)
"""Lasts until 12.5 s."""
BOTH = (CUT, WIPE)
ENDING = EVENTS[-1]


def again(number: int, at: float) -> TopicRecord:
    """A page that the first firing has fed, and that comes once more in the second run."""
    name = f"id-{number}-of-1-in-2"
    return result(number, at, offset=int(at), key=name, id=name, run=2)


def two_runs(
    *left_over: TopicRecord, of: Facts = GOOD, strikes: Sequence[Strike] = BOTH, **counters: int
) -> Facts:
    """A schedule that has fired twice; the second run has these additional pages and counters."""
    first, second = of_run(1, of), of_run(2, of)
    later = [replace(seen, at=seen.at + SECOND_MS) for seen in second]
    told = [
        replace(seen, value={**seen.value, "counters": {**COUNTERS, **counters}})
        if "counters" in seen.value
        else seen
        for seen in later
    ]
    records = [*first, *left_over, *told]
    own_topic = frozenset(seen.key for seen in records if seen.key)
    facts = replace(GOOD, records=records, samples=[], asked=frozenset(), own_topic=own_topic)
    return replace(fired(2, facts), strikes=[STRIKE, *strikes])


def laws(facts: Facts) -> list[str]:
    """Return the laws that were broken."""
    return [violation.law for violation in audit(facts)]


LEFT_OVER = again(3, 11_000)


def test_the_next_run_counts_a_page_unless_its_redis_was_lost_after_it() -> None:
    """Accepts the account with the page, and that of a Redis that was created again."""
    assert laws(two_runs()) == []
    assert laws(two_runs(LEFT_OVER, done=7, admitted=9)) == []
    assert laws(two_runs(LEFT_OVER)) == []


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(lambda: two_runs(LEFT_OVER, strikes=[CUT]), id="no data was lost"),
        pytest.param(lambda: two_runs(LEFT_OVER, strikes=[WIPE]), id="nothing had gone back"),
        pytest.param(
            lambda: two_runs(LEFT_OVER, strikes=[CUT, replace(WIPE, at=19_500)]),
            id="lost after the ending",
        ),
        pytest.param(
            lambda: two_runs(LEFT_OVER, again(3, 13_000)), id="it came again after the loss"
        ),
        pytest.param(lambda: two_runs(LEFT_OVER, done=5, admitted=7), id="a page of its own"),
        pytest.param(lambda: two_runs(done=5, admitted=7), id="nothing was left over"),
        pytest.param(lambda: two_runs(LEFT_OVER, done=8, admitted=10), id="counted twice"),
        pytest.param(
            lambda: two_runs(replace(LEFT_OVER, value={**LEFT_OVER.value, "run": 1})),
            id="a page of the first run",
        ),
    ],
)
def test_a_page_that_nothing_explains_has_to_be_counted(plant: Callable[[], Facts]) -> None:
    """The ledger of the run does not add up then."""
    assert laws(plant()) == ["the ledger adds up"]


def moved(page: TopicRecord) -> TopicRecord:
    """A page to which a seed was redirected."""
    return replace(page, value={**page.value, "redirect_urls": ["http://127.0.0.1:1/moved"]})


def test_a_seed_that_waits_once_more_is_redirected_once_more() -> None:
    """Its target comes once more; without a target, a redirect was counted twice."""
    records = [moved(seen) if seen in RESULTS[4:] else seen for seen in GOOD.records]
    both = instead(ENDING, ending(redirected=2, admitted=9))(replace(GOOD, records=records))

    def audited(page: TopicRecord, strikes: Sequence[Strike] = BOTH) -> list[str]:
        facts = two_runs(page, of=both, strikes=strikes, done=7, redirected=3, admitted=11)
        return laws(replace(facts, fed=[replace(facts.fed[0], redirected=2)]))

    assert audited(moved(LEFT_OVER)) == []
    assert audited(LEFT_OVER) == ["the ledger adds up"]
    assert "the ledger adds up" in audited(moved(LEFT_OVER), [])


def test_seeds_that_were_read_apart_may_leave_pages_to_each_other() -> None:
    """A page of a crawl that was fed once has one id in each run that brought it."""
    once = partial(replace, fed=[replace(FED, runs=3)])
    assert "repeats are recognisable" not in laws(once(two_runs()))
    assert "repeats are recognisable" in laws(once(two_runs(LEFT_OVER)))
    assert "repeats are recognisable" in laws(once(two_runs(strikes=[])))
