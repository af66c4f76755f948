"""Counters by reason of a ledger: all that reads or moves them has the same list."""

from __future__ import annotations

import re

from crawlstream_frontier.codec.partitions import _counters
from crawlstream_frontier.codec.state import REASONS, SUMMED
from crawlstream_frontier.moving.moved_crawl import MovedCrawl
from crawlstream_frontier.moving.unloading import CrawlPart
from support.frontier.lua import LUA

_LIST = re.compile(r"'\^\[([a-z]+)\]:'")
FIELDS = [f"{letter}:reason" for letter in SUMMED]


def test_the_scripts_know_all_of_them() -> None:
    """A run begins without them; the counters of a run that is over are kept, its answers given."""
    found = {
        path.name: set(letters)
        for path in LUA.rglob("*.lua")
        for letters in _LIST.findall(path.read_text(encoding="utf-8"))
    }
    assert found == {"crawls.lua": set(SUMMED), "contexts.lua": set(REASONS.values())}


def test_partitions_report_all_of_them() -> None:
    """Counters of the current run, and of the one before it, are in the report."""
    ledger = [part.encode() for field in FIELDS for part in (field, "3", f"kept:{field}", "4")]
    reported = _counters(ledger)
    assert {reported[field] for field in FIELDS} == {3}
    assert {reported[f"kept:{field}"] for field in FIELDS} == {4}


def test_a_crawl_that_moves_takes_all_of_them_along() -> None:
    """The sums of all partitions."""
    ledger = {field.encode(): b"3" for field in FIELDS}
    parts = [
        CrawlPart(
            partition=partition,
            name=b"link a b",
            c=b"1",
            number=1,
            is_live=True,
            ledger=ledger,
            profiles={},
            shift=0,
            forget_at=b"",
        )
        for partition in range(2)
    ]
    moved = MovedCrawl(b"link a b", run=1, is_open=True, contexts=parts)
    past = moved._past()
    assert {past[field.encode()] for field in FIELDS} == {b"6"}
