"""Runs of a crawl: how they are numbered, ended, and told apart."""

from __future__ import annotations

from dataclasses import replace

from chaos.laws.good_facts import (
    COUNTERS,
    CRAWL,
    EVENTS,
    FED,
    GOOD,
    PAGES,
    RESULTS,
    STRIKE,
    answer,
    ending,
    event,
    instead,
    more,
    result,
    without,
)
from crawlstream_chaos.facts.facts import (
    Facts,
    FedCrawl,
    TopicRecord,
    has_ended,
)
from crawlstream_chaos.laws.auditor import audit


def test_a_first_run_need_not_be_number_one() -> None:
    """Where crawls were forgotten, runs get higher numbers than before, and each has one number."""
    second = [replace(r, value={**r.value, "run": 2}) for r in GOOD.records]
    assert audit(replace(GOOD, records=second)) == []


def test_a_crawl_that_was_stopped_need_not_be_whole() -> None:
    """It ends as stopped, with the pages that were delivered before."""
    stopped = replace(FED, is_stopped=True)
    counters = {"done": 5, "stopped": 2, "redirected": 0}
    facts = replace(
        without(RESULTS[5])(instead(EVENTS[2], ending(9_000, "crawl_stopped", **counters))(GOOD)),
        fed=[stopped],
        samples=[],
    )
    assert audit(facts) == []
    finished = audit(replace(GOOD, fed=[stopped]))
    assert [violation.law for violation in finished] == ["one ending a run"]


APART = FedCrawl(crawlid=CRAWL, delivered=dict.fromkeys([*PAGES][:3], 200), runs=3)
"""Three seeds, of which the first was read some seconds before the others."""
SECOND = {"run": 2}


def ended_after(done: int, at: float, run: int) -> TopicRecord:
    """The ending of a run with this number of seeds."""
    counters = {**COUNTERS, "admitted": done, "done": done, "failed": 0, "redirected": 0}
    return event("crawl_finished", at, run=run, counters=counters)


READ_APART = replace(
    GOOD,
    fed=[APART],
    records=[
        event("crawl_started", 2_100),
        result(0, 2_200),
        ended_after(1, 3_500, run=1),
        event("crawl_started", 4_000, **SECOND),
        result(1, 4_100, **SECOND),
        result(2, 4_200, **SECOND),
        ended_after(2, 5_500, run=2),
        answer(),
    ],
    samples=[],
    own_topic=frozenset({"id-0", "id-1", "id-2"}),
)


def test_seeds_that_a_fault_holds_up_may_begin_runs_of_their_own() -> None:
    """Each run starts and ends once, and counts the pages that have its number."""
    assert audit(READ_APART) == []

    def laws(facts: Facts) -> set[str]:
        return {violation.law for violation in audit(facts)}

    first_end, second_start, page = READ_APART.records[2:5]
    one_run = replace(READ_APART, fed=[replace(APART, runs=1)])
    assert laws(one_run) == {"one ending a run", "the ledger adds up"}
    assert laws(replace(READ_APART, strikes=[replace(STRIKE, at=4_500)])) == {"one ending a run"}
    third = event("crawl_started", 6_000, run=3)
    assert laws(more(third)(READ_APART)) == {"one ending a run"}
    three = more(third, ended_after(0, 7_000, run=3))(READ_APART)
    assert laws(three) == set()
    assert laws(replace(three, fed=[replace(APART, runs=2)])) == {"one ending a run"}
    assert laws(without(first_end)(READ_APART)) == {"one ending a run"}
    assert laws(without(second_start)(READ_APART)) == {"one ending a run"}
    assert laws(without(page)(READ_APART)) == {"nothing is lost", "the ledger adds up"}
    again = ended_after(1, 5_600, run=2)
    assert laws(more(again)(READ_APART)) == {"one ending a run", "an ending is told once"}


def test_a_seed_that_is_fed_once_is_a_page_of_one_run() -> None:
    """A run that ends without a seed that it had, which comes in the next one too, is found."""
    twice = result(0, 4_300, offset=10, id="id-of-run-2", key="id-of-run-2", **SECOND)
    second_end = READ_APART.records[6]
    facts = more(twice)(instead(second_end, ended_after(3, 5_500, run=2))(READ_APART))
    facts = replace(facts, own_topic=frozenset({*(facts.own_topic or ()), "id-of-run-2"}))
    assert [violation.law for violation in audit(facts)] == ["repeats are recognisable"]
    astray = instead(READ_APART.records[5], result(2, 4_200))
    assert {v.what for v in audit(astray(READ_APART))} == {
        "crawl: 1 counted as done, 2 to be seen",
        "crawl: 2 counted as done, 1 to be seen",
    }


def test_a_crawl_that_may_begin_again_has_ended_when_all_its_pages_came() -> None:
    """An ending says nothing of seeds that are not read yet, nor of a run that has begun since."""
    records = READ_APART.records
    assert not has_ended(APART, records[:3])
    assert has_ended(replace(APART, runs=1), records[:3])
    assert not has_ended(APART, records[:6])
    assert has_ended(APART, records)
    assert not has_ended(replace(APART, runs=1), records[:2])
