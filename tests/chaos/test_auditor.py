"""The auditor: whatever is planted among good facts is found, and named by its law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from crawlstream_chaos.facts.facts import (
    APP,
    ENDS,
    GOES_BACK,
    ByProxies,
    Facts,
    FedCrawl,
    Firings,
    HostRule,
    LedgerSample,
    Strike,
    TopicRecord,
    endings_told,
    has_ended,
)
from crawlstream_chaos.facts.stored import Stored
from crawlstream_chaos.laws.auditor import LAWS, audit
from crawlstream_chaos.laws.payments import LAWS as OF_PAYMENTS
from crawlstream_chaos.laws.pipeline_stores import LAWS as OF_PIPELINES
from crawlstream_chaos.laws.signatures import LAWS as OF_SIGNATURES
from crawlstream_chaos.laws.skips import LAWS as OF_SKIPS
from crawlstream_chaos.nemesis import FAULTS
from crawlstream_cli.demo.access_log import LoggedRequest

CRAWL = "crawl"
PAGES = {f"http://127.0.0.1:1/{n}": 200 for n in range(6)}
PRIVATE = "http://127.0.0.1:1/private/7"
FED = FedCrawl(crawlid=CRAWL, delivered=PAGES, failed={PRIVATE: "robots"}, redirected=1)
STRIKE = Strike(fault="kill", target="crawler-link-1", at=2_000, in_flight=1)
ASKED = "a-question"
COUNTERS = dict.fromkeys(ENDS, 0) | {"admitted": 8, "done": 6, "failed": 1, "redirected": 1}
BANS = {"http://127.0.0.1:1/0": "noindex", "http://127.0.0.1:1/2": "reserved"}


def record(
    topic: str, offset: int, at: float, /, key: str | None = None, **value: Any
) -> TopicRecord:
    """A record of the crawl."""
    value = {"crawlid": CRAWL, "appid": APP, "run": 1, **value}
    return TopicRecord(topic=topic, key=key, value=value, partition=0, offset=offset, at=at)


def result(number: int, at: float, offset: int | None = None, **value: Any) -> TopicRecord:
    """The result of a page; the first one says noindex, the third one is reserved."""
    name, url = f"id-{number}", f"http://127.0.0.1:1/{number}"
    ban = BANS.get(url)
    value = {**({"has_body": False, "dropped": ban} if ban else {}), **value}
    fields = {"key": name, "id": name, "url": url, "status_code": 200, **value}
    return record("crawled_firehose", number if offset is None else offset, at, **fields)


def event(name: str, at: float, **value: Any) -> TopicRecord:
    """An event of the crawl."""
    return record("events", int(at), at, event=name, **value)


def ending(at: float = 9_000, name: str = "crawl_finished", **counters: int) -> TopicRecord:
    """How the crawl ended."""
    return event(name, at, counters={**COUNTERS, **counters})


def answer(uuid: str = ASKED, **value: Any) -> TopicRecord:
    """The answer to a question."""
    return record("outbound_firehose", 0, 5_000, uuid=uuid, server_time=1.5, **value)


def visit(at: float, path: str = "/1") -> LoggedRequest:
    """A request that the site saw."""
    return LoggedRequest(at, at, "127.0.0.1", "GET", path, 200, "")


def ledger(**counts: int) -> CrawlState:
    """A ledger that adds up: six are done, one failed, one is held."""
    numbers: dict[str, Any] = {
        "admitted": 8, "queued": 0, "delayed": 0, "held": 1, "done": 6, "failed": 1,
        "redirected": 0, "skipped": 0, "stopped": 0, "expired": 0, **counts,
    }  # fmt: skip
    key = CrawlKey("link", APP, CRAWL)
    return CrawlState(
        crawl=key, run=1, state="running", started_at=0, last_activity=0, expires=0, **numbers
    )


def sample(at: float = 7_000, logged: int = 6, **counts: int) -> LedgerSample:
    """Counters of the ledger, and the number of results in Kafka at that time."""
    return LedgerSample(at=at, ledgers=[ledger(**counts)], logged={("crawled_firehose", 0): logged})


RESULTS = [result(n, 1_000 * (n + 1)) for n in range(6)]
EVENTS = [
    event("crawl_started", 100),
    event("page_failed", 200, id="id-7", url=PRIVATE, reason="robots"),
    ending(),
]
GOOD = Facts(
    fed=[FED],
    records=[*RESULTS, *EVENTS, answer()],
    visits=[visit(1_000 * n) for n in range(6)],
    rules=[HostRule(host="127.0.0.1", hits=1, window_s=1)],
    samples=[sample()],
    strikes=[STRIKE],
    asked=frozenset({ASKED}),
    own_topic=frozenset(f"id-{n}" for n in range(6)),
    bans=BANS,
)

Plant = Callable[[Facts], Facts]


def seen_by_proxies(facts: Facts, visits: Sequence[LoggedRequest]) -> Facts:
    """Audit a crawl through proxies that have seen these requests."""
    return replace(facts, pool="de", by_proxies=ByProxies(list(visits)))


def more(*records: TopicRecord) -> Plant:
    """Records besides the good ones."""
    return lambda facts: replace(facts, records=[*facts.records, *records])


def without(*records: TopicRecord) -> Plant:
    """The good records but some."""
    return lambda facts: replace(facts, records=[r for r in facts.records if r not in records])


def instead(old: TopicRecord, new: TopicRecord) -> Plant:
    """Replace one of the good records."""
    return lambda facts: replace(facts, records=[new if r == old else r for r in facts.records])


def firing(number: int) -> TopicRecord:
    """Events of a firing, which name no run."""
    told = event("schedule_fired", 50 + number, schedule="news")
    value = {k: v for k, v in told.value.items() if k != "run"}
    return replace(told, key=f"news {number}", value={**value, "at": number})


def fired(times: int, facts: Facts, *, untold: int = 0) -> Facts:
    """The crawl belongs to a schedule with this number of firings."""
    firings = Firings(schedule="news", told=times, untold=untold)
    fed = replace(FED, firings=firings, runs=times * 3)
    told = [firing(number) for number in range(1, times + 1)]
    return replace(facts, fed=[fed], records=[*told, *facts.records])


def sampled(*samples: LedgerSample) -> Plant:
    """Other samples."""
    return lambda facts: replace(facts, samples=samples)


def visited(*times: float) -> Plant:
    """Other arrivals at the site."""
    return lambda facts: replace(facts, visits=[visit(at) for at in times])


AGAIN = result(1, 3_500, offset=10)
"""A repeat after the strike, which had one page in flight."""


def test_what_is_good_is_called_good() -> None:
    """All pages, one repeat that a fault explains, one ending: no violation."""
    assert audit(GOOD) == []
    assert audit(more(AGAIN)(GOOD)) == []


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
    """No law that nothing was ever seen to break; four kinds have files of their own."""
    elsewhere = {**OF_PAYMENTS, **OF_PIPELINES, **OF_SIGNATURES, **OF_SKIPS}
    assert {law for _, law, _ in PLANTED.values()} == LAWS.keys() - elsewhere.keys()


def test_a_first_run_need_not_be_number_one() -> None:
    """Where crawls were forgotten numbers go on above theirs, and one run is one run."""
    second = [replace(r, value={**r.value, "run": 2}) for r in GOOD.records]
    assert audit(replace(GOOD, records=second)) == []


def test_a_rule_counts_for_windows_within_its_time() -> None:
    """More requests are allowed before the rule is in force, and after it."""
    rules = [
        HostRule(host="127.0.0.1", hits=2, window_s=1),
        HostRule(host="127.0.0.1", hits=1, window_s=1, since=5_000, until=9_000),
    ]

    def overruns(*times: float) -> list[str]:
        facts = replace(visited(*times)(GOOD), rules=rules)
        return [violation.what for violation in audit(facts)]

    assert not overruns(0, 100, 4_990, 5_000, 8_500, 9_000)
    assert "2 requests within 0.1000 s, where 1" in overruns(6_000, 6_100)[0]
    assert "3 requests within 0.2000 s, where 2" in overruns(0, 100, 200)[0]


def test_a_window_may_be_a_tenth_short_only_where_the_clock_is_set() -> None:
    """The gain of the frontier clock by a step counts only for windows with a step."""
    step = replace(STRIKE, fault="step-clock", at=2_000, seconds=1)

    def overruns(*times: float) -> bool:
        return bool(audit(replace(visited(*times)(GOOD), strikes=[STRIKE, step])))

    assert not overruns(1_500, 2_401)
    assert overruns(1_500, 2_398)
    assert overruns(900, 1_850)
    assert overruns(3_001, 3_950)


def test_what_scripts_ask_for_counts_by_page_and_not_in_windows() -> None:
    """Each visit of a page may bring its share, and nothing comes before its page."""

    def broken(*visits: LoggedRequest) -> list[str]:
        return [v.law for v in audit(replace(GOOD, render=2, visits=visits))]

    def further(at: float, number: int) -> LoggedRequest:
        return visit(at, f"/further/{number}/1")

    assert not broken(visit(0), further(1, 0), further(2, 1), visit(1_000), further(1_001, 0))
    assert broken(further(1, 0), visit(2)) == ["a page brings what it may"]
    assert broken(visit(0), further(1, 0), visit(900)) == ["no window is overrun"]


def test_what_is_recovered_may_repeat_all() -> None:
    """After Redis was lost whatever was unfinished comes again, and says so."""
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


def of_run(number: int, facts: Facts) -> list[TopicRecord]:
    """The records of the crawl as those of another run, whose pages have other ids."""
    found = []
    for seen in facts.records:
        value = {**seen.value, "run": number}
        if "id" in value:
            value["id"] = f"{value['id']}-{number}"
        key = value["id"] if seen.topic == "crawled_firehose" else seen.key
        found.append(replace(seen, key=key, value=value, offset=seen.offset + 100 * number))
    return found


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
