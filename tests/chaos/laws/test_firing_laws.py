"""Laws of a crawl that a schedule feeds: what firings share, and what each has for itself."""

from __future__ import annotations

from dataclasses import replace

from chaos.laws.good_facts import GOOD, STRIKE, fired, of_run
from crawlstream_chaos.facts.facts import has_ended
from crawlstream_chaos.laws.auditor import audit, one_ending


def test_each_firing_of_a_schedule_is_a_run_of_its_own() -> None:
    """Brings all pages under new ids; a Redis that goes back may have one happen again."""
    runs = [seen for number in (1, 2) for seen in of_run(number, GOOD)]
    own_topic = frozenset(seen.key for seen in runs if seen.key)
    facts = replace(GOOD, records=runs, samples=[], asked=frozenset(), own_topic=own_topic)
    assert audit(fired(2, facts)) == []
    once = fired(1, facts)
    laws = {violation.law for violation in audit(once)}
    assert laws == {"repeats are recognisable", "the ledger adds up", "one ending a run"}
    cut = [STRIKE, replace(STRIKE, fault="power-cut", at=50)]
    assert audit(replace(once, strikes=cut)) == []
    assert audit(replace(fired(1, facts, untold=1), strikes=cut)) == []
    thrice = [violation.law for violation in audit(replace(fired(3, facts), strikes=cut))]
    assert "each firing brings its pages" in thrice


def test_firings_share_a_run_that_is_open() -> None:
    """A firing before the end of the last run joins it; one after that end begins another."""
    first, second = of_run(1, GOOD), of_run(2, GOOD)
    one_run = [
        replace(r, value={**r.value, "run": 1}) for r in second if r.topic == "crawled_firehose"
    ]
    joined = fired(2, replace(GOOD, records=[*first, *one_run], samples=[]))
    assert not list(one_ending(joined))
    late = [replace(r, at=20_000) if r.key == "news 2" else r for r in joined.records]
    (fault,) = one_ending(replace(joined, records=late))
    assert "started as runs [1]" in fault


def test_a_firing_has_ended_with_its_own_run() -> None:
    """The ending of the run before says nothing of it."""
    first, second = of_run(1, GOOD), of_run(2, GOOD)
    (fed,) = fired(2, GOOD).fed
    assert not has_ended(fed, first)
    assert not has_ended(fed, [*first, *(r for r in second if "counters" not in r.value)])
    assert has_ended(fed, [*first, *second])
