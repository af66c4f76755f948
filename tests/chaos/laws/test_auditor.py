"""The auditor: whatever is planted among good facts is found, and named by its law."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.laws.good_facts import (
    AGAIN,
    CRAWL,
    EVENTS,
    GOOD,
    RESULTS,
    Plant,
    answer,
    ending,
    event,
    fired,
    firing,
    instead,
    more,
    result,
    sample,
    sampled,
    seen_by_proxies,
    visit,
    visited,
    without,
)
from crawlstream_chaos.facts.stored import Stored
from crawlstream_chaos.laws.answered_clients import LAWS as OF_REPLIES
from crawlstream_chaos.laws.auditor import LAWS, audit
from crawlstream_chaos.laws.payments import LAWS as OF_PAYMENTS
from crawlstream_chaos.laws.pipeline_stores import LAWS as OF_PIPELINES
from crawlstream_chaos.laws.scrapes import LAWS as OF_SCRAPES
from crawlstream_chaos.laws.signatures import LAWS as OF_SIGNATURES
from crawlstream_chaos.laws.skips import LAWS as OF_SKIPS
from crawlstream_chaos.laws.traces import LAWS as OF_TRACES


def test_what_is_good_is_called_good() -> None:
    """All pages, one repeat that a fault explains, one ending: no violation."""
    assert audit(GOOD) == []
    assert audit(more(AGAIN)(GOOD)) == []


PLANTED = {
    "a page that never comes": (without(RESULTS[3]), "nothing is lost", "never delivered"),
    "a page with another status": (
        instead(RESULTS[3], result(3, 4_000, status_code=500)), "nothing is lost", "with 500",
    ),
    "a page that nobody asked for": (
        more(result(9, 5_000)), "nothing is lost", "should not be",
    ),
    "a failure that never comes": (without(EVENTS[1]), "nothing is lost", "never failed"),
    "a page that fails": (
        more(event("page_failed", 300, id="id-8", url="http://127.0.0.1:1/3", reason="timeout")),
        "nothing is lost",
        "failed (timeout)",
    ),
    "a repeat before any fault": (
        more(result(0, 1_500, offset=10)), "repeats are bounded", "repeat 1",
    ),
    "more repeats than were in flight": (
        more(AGAIN, result(2, 4_500, offset=11)), "repeats are bounded", "explain 1",
    ),
    "recovered without a loss": (
        more(result(1, 3_500, offset=10, recovered=True)), "repeats are bounded", "nothing was",
    ),
    "a repeat under another id": (
        more(result(1, 3_500, offset=10, id="other", key="other")),
        "repeats are recognisable",
        "2 ids of one page",
    ),
    "one id for two pages": (
        instead(RESULTS[3], result(3, 4_000, id="id-2", key="id-2")),
        "repeats are recognisable",
        "one id of 2 pages",
    ),
    "a key that is not the id": (
        instead(RESULTS[3], result(3, 4_000, key=None)), "repeats are recognisable", "key None",
    ),
    "a page that is nowhere": (sampled(sample(held=0)), "the ledger adds up", "1 of 8 nowhere"),
    "a page that is counted twice": (
        instead(EVENTS[2], ending(done=7, admitted=9)), "the ledger adds up", "7 counted as done",
    ),
    "a page that ended nowhere": (
        instead(EVENTS[2], ending(admitted=9)), "the ledger adds up", "9 admitted, 8 ended",
    ),
    "a failure that is not told": (
        instead(EVENTS[2], ending(failed=2, admitted=9)), "the ledger adds up", "2 counted as fai",
    ),
    "a leak in the frontier": (
        lambda facts: replace(facts, leaks={"held": -1}), "the ledger adds up", "off by -1",
    ),
    "no ending": (without(EVENTS[2]), "one ending a run", "ended by nothing"),
    "two endings": (
        more(ending(9_100, "crawl_expired")), "one ending a run", "crawl_expired of run 1",
    ),
    "one ending with two accounts": (
        more(ending(9_100, done=7)), "one ending a run", "different counters",
    ),
    "an ending that is told again": (
        more(ending(9_500)), "an ending is told once", "told again, and nothing explains it",
    ),
    "another run": (more(event("crawl_started", 8_000, run=2)), "one ending a run", "[1, 2]"),
    "a page after the end": (
        more(result(1, 30_000, offset=10)), "one ending a run", "came after its end",
    ),
    "two requests in one window": (
        visited(0, 1_000, 1_900), "no window is overrun", "2 requests within 0.9000 s",
    ),
    "a request without a rule": (
        lambda facts: replace(facts, rules=[]), "no window is overrun", "no rule allows it",
    ),
    "complete before Kafka has it": (
        sampled(sample(logged=5)), "complete only after Kafka", "6 complete when Kafka had 5",
    ),
    "complete and never published": (
        without(RESULTS[5]), "complete only after Kafka", "6 complete when Kafka had 5",
    ),
    "more further requests than a page may bring": (
        lambda facts: replace(
            facts,
            render=2,
            visits=[visit(0), *(visit(10 + n, f"/further/{n}/1") for n in range(3))],
        ),
        "a page brings what it may",
        "127.0.0.1/1: further request 3, where 1 visits may bring 2 each",
    ),
    "a question without an answer": (
        without(GOOD.records[-1]), "every question is answered", "never answered: a-question",
    ),
    "two answers that differ": (
        more(answer(error="unknown")), "every question is answered", "2 different answers",
    ),
    "a result that is not on the application's own topic": (
        lambda facts: replace(facts, own_topic=frozenset({"id-0"})),
        "an application's topic has all",
        "not on its own topic",
    ),
    "a forbidden page that is asked for": (
        lambda facts: replace(facts, visits=[visit(1, "/private/7")]),
        "robots.txt is obeyed",
        "was asked for 1 times",
    ),
    "a firing that brings nothing": (
        lambda facts: fired(2, facts), "each firing brings its pages", "1 of 2 firings brought",
    ),
    "a firing of which nothing is told": (
        lambda facts: fired(1, facts, untold=1), "each firing brings its pages", "told of 1 firin",
    ),
    "a firing that nobody asked for": (
        lambda facts: fired(1, more(firing(2))(facts)), "each firing brings its pages", "fired 2 t",
    ),
    "pages that a shelf lost by itself": (
        lambda facts: replace(facts, shelf_lost={CRAWL: 3}), "the shelf keeps all", "3 pages",
    ),
    "a page that came directly": (
        lambda facts: replace(facts, pool="de"), "no page comes past its proxies", "past the pool",
    ),
    "a request that no proxy saw": (
        lambda facts: seen_by_proxies(facts, facts.visits[1:]),
        "no page comes past its proxies",
        "past all proxies",
    ),
    "requests that left too early for a proxy": (
        lambda facts: seen_by_proxies(facts, [visit(1_000), visit(1_500)]),
        "no window is overrun",
        "2 requests within",
    ),
    "an attempt that was lost for nothing": (
        lambda facts: replace(instead(RESULTS[1], result(1, 2_000, attempt=2))(facts), pool="de"),
        "attempts are lost for a cause",
        "1 attempts more",
    ),
    "a body of a page that says noindex": (
        instead(RESULTS[0], result(0, 1_000, has_body=True)),
        "no forbidden body leaves", "its body was published",
    ),
    "a body of a page that its site reserves": (
        instead(RESULTS[2], result(2, 3_000, has_body=True, dropped=None)),
        "no forbidden body leaves", "is reserved, and its body was published",
    ),
    "a body that is missing for another reason": (
        instead(RESULTS[2], result(2, 3_000, dropped="noindex")),
        "no forbidden body leaves", "is reserved, and was dropped as noindex",
    ),
    "a body that is missing for no reason": (
        instead(RESULTS[1], result(1, 2_000, dropped="noindex")),
        "no forbidden body leaves", "is neither noindex nor reserved, and was dropped as noindex",
    ),
    "a body in a store": (
        lambda f: replace(f, stores=[Stored(pipeline="p", pages={}, bodies=frozenset({"id-0"}))]),
        "no forbidden body leaves", "p has the body of the page id-0",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("plant", "law", "words"), PLANTED.values(), ids=PLANTED)
def test_every_planted_violation_is_found_and_named(plant: Plant, law: str, words: str) -> None:
    """Its law is among those that are broken, with what it was."""
    found = audit(plant(GOOD))
    assert any(v.law == law and words in v.what for v in found), found


def test_every_law_is_planted_against() -> None:
    """No law that nothing was ever seen to break; seven kinds have files of their own."""
    kinds = (OF_PAYMENTS, OF_PIPELINES, OF_REPLIES, OF_SCRAPES, OF_SIGNATURES, OF_SKIPS, OF_TRACES)
    elsewhere = {law for laws in kinds for law in laws}
    assert {law for _, law, _ in PLANTED.values()} == LAWS.keys() - elsewhere
