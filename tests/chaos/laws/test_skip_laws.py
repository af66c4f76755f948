"""Laws of pages that the waste guard ends before their requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chaos.laws.good_facts import EVENTS, FED, GOOD, STRIKE, ending, event, instead, more, result
from crawlstream_chaos.facts.facts import Facts, TopicRecord
from crawlstream_chaos.laws.auditor import audit
from crawlstream_chaos.laws.skips import LAWS

(LAW,) = LAWS
TRAP = "http://127.0.0.1:1/list?sort="


def skips(at: float, *numbers: int, count: int | None = None) -> TopicRecord:
    """An event that names some pages of the trap."""
    pages = [{"id": f"trap-{n}", "url": f"{TRAP}{n}"} for n in numbers]
    told = event(
        "pages_skipped",
        at,
        reason="guard_parameter",
        family="?sort",
        site="127.0.0.1",
        pages=pages,
        count=len(pages) if count is None else count,
    )
    return replace(told, key="trap-1")


def facts_of(skipped: int, *events: TopicRecord) -> Facts:
    """Return a crawl that counts some pages as skipped, and the events that name them."""
    counted = ending(skipped=skipped, admitted=8 + skipped)
    fed = replace(FED, may_be_skipped=frozenset(f"{TRAP}{n}" for n in range(1, 5)))
    return replace(more(*events)(instead(EVENTS[-1], counted)(GOOD)), fed=[fed])


def broken(facts: Facts) -> list[str]:
    """Return how the law of skipped pages is broken."""
    return [each.what for each in audit(facts) if each.law == LAW]


def own_topic(facts: Facts) -> Facts:
    """Let the application's own topic have all results."""
    keys = (each.key for each in facts.records if each.topic == "crawled_firehose")
    return replace(facts, own_topic=frozenset(filter(None, keys)))


FIRST = skips(3_000, 1, 2)
FIRST_PAGE: dict[str, Any] = {"id": "trap-1", "key": "trap-1", "url": f"{TRAP}1"}


def test_named_pages_are_counted_once() -> None:
    """Counts named pages once, also if a crawler died in between and they are named again."""
    assert audit(facts_of(2, FIRST)) == []
    assert audit(facts_of(3, FIRST, skips(3_500, 1, 3))) == []


def test_an_ending_by_the_version_before_counts_no_skipped_pages() -> None:
    """Its redis-monitor does not know them."""
    counters = {name: n for name, n in EVENTS[-1].value["counters"].items() if name != "skipped"}
    assert audit(instead(EVENTS[-1], event("crawl_finished", 9_000, counters=counters))(GOOD)) == []


def test_a_page_that_was_named_may_come_after_a_fault() -> None:
    """Its verdict was taken back; or a stop, or its clean form, has ended it."""
    late = result(9, 4_000, **FIRST_PAGE)
    assert broken(facts_of(1, FIRST, late)) == []
    assert broken(facts_of(1, FIRST)) == []
    unstruck = replace(facts_of(1, FIRST), strikes=[])
    assert broken(unstruck) == ["crawl: 1 counted as skipped, at least 2 of those named were"]


def test_a_delivered_page_may_be_skipped_once_redis_has_gone_back() -> None:
    """Its lease and its end are lost: it is new, and is counted as skipped."""
    facts = own_topic(facts_of(2, result(9, 2_500, **FIRST_PAGE), FIRST))
    assert [each.what for each in audit(facts)] == ["crawl: 6 counted as done, 7 to be seen"]
    assert audit(replace(facts, strikes=[STRIKE, replace(STRIKE, fault="power-cut")])) == []


EARLY = result(9, 1_500, **FIRST_PAGE)
PLANTED: dict[str, tuple[Callable[[], Facts], str]] = {
    "counted without a name": (lambda: facts_of(3, FIRST), "3 counted as skipped, 2 named"),
    "counted twice": (
        lambda: facts_of(4, FIRST, skips(3_500, 1, 2)),
        "4 counted as skipped, 2 named",
    ),
    "named and lost": (
        lambda: facts_of(0, FIRST, skips(3_500, 1, 3, 4)),
        "0 counted as skipped, at least 3 of those named were",
    ),
    "named and delivered": (
        lambda: facts_of(1, FIRST, EARLY),
        f"skipped and delivered, before any fault: {TRAP}1",
    ),
    "named but worth having": (
        lambda: facts_of(1, skips(3_000, 1, 9)),
        f"skipped but should not be: {TRAP}9",
    ),
    "another count": (
        lambda: facts_of(2, skips(3_000, 1, 2, count=3)),
        "key trap-1 and count 3 of an event with 2 skipped pages",
    ),
    "another key": (
        lambda: facts_of(2, skips(3_000, 2, 1)),
        "key trap-1 and count 2 of an event with 2 skipped pages",
    ),
}


@pytest.mark.parametrize(("plant", "words"), PLANTED.values(), ids=PLANTED)
def test_every_planted_violation_is_found_and_named(plant: Callable[[], Facts], words: str) -> None:
    """Events name the pages, and the ledger counts them."""
    assert any(words in each for each in broken(plant())), audit(plant())
