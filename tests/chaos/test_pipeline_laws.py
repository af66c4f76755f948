"""The auditor of stores: whatever is planted in a good one is found, and named by its law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chaos.laws.good_facts import CRAWL, GOOD, event, result
from crawlstream_chaos.facts.facts import APP, Facts
from crawlstream_chaos.facts.stored import ClaimedSegment, Stored
from crawlstream_chaos.laws.auditor import audit
from crawlstream_chaos.laws.pipeline_stores import LAWS

RUN = f"{APP}\t{CRAWL}\tlink\t1"
GARBAGE = "demo.crawled_firehose-0-6"
TOLD = f"archive:1:{GARBAGE}"


def tally(**changes: Any) -> dict[str, Any]:
    """An account of the six pages."""
    good = {"read": 6, "delivered": 6, "repeats": 0, "filtered": {}, "undelivered": {}, "lost": 0}
    return good | changes


def account(*, total: dict[str, Any] | None = None, run: dict[str, Any] | None = None) -> Any:
    """The recorded position of a partition."""
    whole = tally(read=7, undelivered={"unreadable": 1})
    return {"total": whole | (total or {}), "runs": {RUN: tally() | (run or {})}}


FIRST = ClaimedSegment(
    partition=0, start=0, next=3, files={"a": 3}, account={"total": tally(), "runs": {}}
)
LAST = ClaimedSegment(partition=0, start=3, next=7, files={"b": 3}, account=account())
STORED = Stored(
    pipeline="archive",
    pages={"a": ["id-0", "id-1", "id-2"], "b": ["id-3", "id-4", "id-5"]},
    segments=[FIRST, LAST],
    source={0: 7},
)


def delivery(**changes: Any) -> Any:
    """Counters of the event that ended the run."""
    numbers = {"done": 6, "silent": 0, "complete": True}
    told = {**tally(), **numbers, "undelivered": 0, **changes}
    return event("run_delivered", 9_500, pipeline="archive", **told)


def with_store(stored: Stored = STORED, **delivered: Any) -> Facts:
    """The crawl, stored by a pipeline."""
    return replace(
        GOOD,
        records=[*GOOD.records, delivery(**delivered)],
        stores=[stored],
        unreadable=[GARBAGE],
        undelivered=frozenset({TOLD}),
    )


def changed(**changes: Any) -> Facts:
    """With another store."""
    return with_store(replace(STORED, **changes))


DOCUMENTS = [(f"http://127.0.0.1:1/{n}", f"id-{n}") for n in range(6)]
INDEX = replace(
    STORED,
    statuses=frozenset([200, 404, 410]),
    pages={},
    documents=DOCUMENTS,
    segments=[replace(FIRST, files={}), replace(LAST, files={})],
)


def with_index(*visits: Any, **changes: Any) -> Facts:
    """With an index that has the newest pages; ``visits`` are further results."""
    facts = with_store(replace(INDEX, **changes))
    return replace(facts, records=[*facts.records, *visits])


def again(number: int, name: str, at: str, offset: int, **value: Any) -> Any:
    """A later result of a page."""
    value = {"id": name, "timestamp": f"2026-11-29T{at}:00Z", **value}
    return result(number, 3_500 + offset, offset=offset, **value)


def of_documents(facts: Facts) -> list[str]:
    """Violations of the law of documents."""
    return list(LAWS["each document is the newest page"](facts))


def test_an_index_has_the_newest_page_of_each_url() -> None:
    """An older result counts as little as a failure, and a page that is gone has no document."""
    assert audit(with_index()) == []
    visits = [
        again(1, "new", "12:00", 7),
        again(1, "old", "11:00", 8),
        again(2, "none", "12:00", 9, status_code=410),
        again(3, "failed", "12:00", 10, status_code=500),
        again(9, "elsewhere", "12:00", 11, redirect_urls=["http://127.0.0.1:1/4"]),
        again(5, "id-5", "12:00", 12, status_code=404),
    ]
    found = {0: "id-0", 1: "new", 3: "id-3", 5: "id-5", 9: "elsewhere"}
    documents = [(f"http://127.0.0.1:1/{n}", page) for n, page in found.items()]
    assert of_documents(with_index(*visits, documents=documents)) == []
    for missed in visits[:1] + visits[2:3] + visits[4:5]:
        assert of_documents(with_index(missed))


def test_what_is_good_is_called_good() -> None:
    """All pages once, a closed account, a reported delivery; also where some are filtered."""
    assert audit(with_store()) == []
    none = replace(STORED, statuses=range(300, 400), pages={"a": []}, segments=[NO_PAGES])
    filtered = {"delivered": 0, "filtered": {"where.status": 6}}
    assert audit(with_store(none, **filtered)) == []


def test_a_repeat_is_counted_and_not_stored() -> None:
    """It is on the topic twice."""
    again = result(1, 3_500, offset=7)
    twice = {"read": 8, "repeats": 1, "undelivered": {"unreadable": 1}}
    last = replace(LAST, next=8, account=account(total=twice, run={"read": 7, "repeats": 1}))
    facts = with_store(replace(STORED, segments=[FIRST, last], source={0: 8}), read=7, repeats=1)
    assert audit(replace(facts, records=[*facts.records, again])) == []


NO_PAGES = ClaimedSegment(
    partition=0,
    start=0,
    next=7,
    files={"a": 0},
    account=account(
        total={"delivered": 0, "filtered": {"where.status": 6}},
        run={"delivered": 0, "filtered": {"where.status": 6}},
    ),
)
Plant = Callable[[], Facts]

PLANTED: dict[str, tuple[Plant, str, str]] = {
    "a page that is not stored": (
        lambda: changed(pages={"a": ["id-0", "id-1", "id-2"], "b": ["id-3", "id-4"]}),
        "each page is stored once",
        "never stored: http://127.0.0.1:1/5",
    ),
    "a page that is stored twice": (
        lambda: changed(pages={"a": ["id-0", "id-1", "id-2", "id-3"], "b": STORED.pages["b"]}),
        "each page is stored once",
        "stored 2 times: http://127.0.0.1:1/3",
    ),
    "a page that nobody has seen": (
        lambda: changed(pages={"a": [*STORED.pages["a"], "id-9"], "b": STORED.pages["b"]}),
        "each page is stored once",
        "stored, but not wanted: id-9",
    ),
    "a page that is filtered, and stored": (
        lambda: changed(statuses=range(300, 400)),
        "each page is stored once",
        "stored, but not wanted: id-0",
    ),
    "a document that is missing": (
        lambda: with_index(documents=DOCUMENTS[1:]),
        "each document is the newest page",
        "None of http://127.0.0.1:1/0, expected the page id-0",
    ),
    "a document that is twice": (
        lambda: with_index(documents=[*DOCUMENTS, DOCUMENTS[0]]),
        "each document is the newest page",
        "2 documents of http://127.0.0.1:1/0",
    ),
    "a document that nobody has seen": (
        lambda: with_index(documents=[*DOCUMENTS, ("http://127.0.0.1:1/7", "id-7")]),
        "each document is the newest page",
        "a document of no result: http://127.0.0.1:1/7",
    ),
    "a revisit that leads nowhere": (
        lambda: changed(faults=["x.warc.gz: it refers to nothing"]),
        "archives are whole",
        "archive: x.warc.gz: it refers to nothing",
    ),
    "a revisit that was not counted": (
        lambda: changed(revisits=1), "archives are whole", "0 counted as revisits, 1 stored",
    ),
    "a gap": (
        lambda: changed(segments=[FIRST, replace(LAST, start=4)]),
        "segments follow each other",
        "begins at 4, where the one before ends at 3",
    ),
    "a segment that nobody finished": (
        lambda: changed(segments=[FIRST, replace(LAST, files=None, account={})]),
        "segments follow each other",
        "claimed, and was never finished",
    ),
    "an end that is not stored": (
        lambda: changed(source={0: 9}), "segments follow each other", "ends at 9, and what is",
    ),
    "a partition that nobody reads": (
        lambda: changed(source={0: 7, 1: 2}), "segments follow each other", "partition 1: the sou",
    ),
    "a file of nobody": (
        lambda: changed(pages={**STORED.pages, "c": []}),
        "segments follow each other",
        "c holds 0, and nothing is noted of it",
    ),
    "a file that is not there": (
        lambda: changed(pages={"a": STORED.pages["a"]}),
        "segments follow each other",
        "b holds nothing, and 3 is noted of it",
    ),
    "an account that does not close": (
        lambda: changed(segments=[FIRST, replace(LAST, account=account(total={"read": 8}))]),
        "accounts close",
        "1 records were read, and nobody says",
    ),
    "more delivered than stored": (
        lambda: changed(
            segments=[FIRST, replace(LAST, account=account(total={"read": 8, "delivered": 7}))]
        ),
        "accounts close",
        "7 counted as delivered, 6 stored",
    ),
    "a run with another account": (
        lambda: changed(
            segments=[FIRST, replace(LAST, account=account(run={"delivered": 5, "repeats": 1}))]
        ),
        "accounts close",
        "5 counted as delivered, 6 to be seen",
    ),
    "a delivery that is not told": (
        lambda: replace(with_store(), records=GOOD.records), "a delivery is reported", "never told",
    ),
    "a delivery with pages away": (
        lambda: with_store(done=7, complete=False, silent=1),
        "a delivery is reported",
        "1 of its p",
    ),
    "a delivery that does not add up": (
        lambda: with_store(delivered=5), "a delivery is reported", "6 read and 5 accounted for",
    ),
    "a record that is dropped": (
        lambda: replace(with_store(), undelivered=frozenset()),
        "what is undelivered is reported",
        f"never told as undelivered: {GARBAGE}",
    ),
    "a record that is not counted": (
        lambda: replace(with_store(), unreadable=[GARBAGE, GARBAGE]),
        "what is undelivered is reported",
        "1 counted as undelivered, 2 to be seen",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("plant", "law", "words"), PLANTED.values(), ids=PLANTED)
def test_every_planted_violation_is_found_and_named(plant: Plant, law: str, words: str) -> None:
    """Its law is among those that are broken, with what it was."""
    found = audit(plant())
    assert any(v.law == law and words in v.what for v in found), found


def test_every_law_is_planted_against() -> None:
    """No law that nothing was ever seen to break."""
    assert {law for _, law, _ in PLANTED.values()} == set(LAWS)
