"""Records of runs in Kafka decide which seeds a new Redis crawls again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawlstream.keys import Topics
from crawlstream.model.crawl import CrawlKey, FiringKey
from crawlstream.model.run_marks import PAUSE, RESUME, RUNNING, STOP, Fate, Past, RunMark
from crawlstream.wire.run_marks import decode, encode

CRAWL = CrawlKey("link", "app:1", "one")
HERE, THERE = "uuid:0", "uuid:1"


def mark(state: str, run: int = 0, *, here: int | None = None, at_ms: int = 0) -> RunMark:
    """A mark with a position in one partition."""
    positions = {} if here is None else {HERE: here}
    return RunMark(crawl=CRAWL, state=state, run=run, positions=positions, at_ms=at_ms)


def is_over(past: Past, offset: int, *, place: str = HERE, at_ms: int = 1000) -> bool:
    """Return whether a seed of the crawl is not crawled again."""
    return past.is_over(CRAWL, place, offset=offset, at_ms=at_ms)


def test_a_seed_of_an_unknown_crawl_is_crawled_again() -> None:
    """A run that began just before the loss may not have been noted yet."""
    assert not is_over(Past([]), 0)


def test_the_seeds_of_an_ended_run_are_over_and_later_ones_are_not() -> None:
    """An ended run covers what had been read when it ended."""
    past = Past([mark("finished", 3, here=10)])
    assert is_over(past, 9)
    assert not is_over(past, 10)
    assert not is_over(past, 0, place=THERE)
    assert (past.floor, past.unfinished()) == (3, {})


def test_the_seeds_of_a_run_under_way_are_crawled_again() -> None:
    """Reads seeds from the earliest beginning of open runs; earlier records are over."""
    past = Past([mark("finished", 1, here=4), mark(RUNNING, 2, here=7)])
    assert [is_over(past, offset) for offset in (3, 6, 7, 8)] == [True, True, False, False]
    assert past.unfinished() == {CRAWL: 2}


def test_the_ending_of_an_older_run_does_not_cover_the_one_under_way() -> None:
    """Feed, stop, feed: the first run may end after the second has begun."""
    past = Past([mark(RUNNING, 2, here=7), mark("stopped", 1, here=90)])
    assert not is_over(past, 8)
    assert past.unfinished() == {CRAWL: 2}


def test_an_ending_is_final_in_whatever_order_it_is_told() -> None:
    """A monitor may die before it reports a beginning; another one does after the ending."""
    told = [mark("finished", 3, here=10), mark(RUNNING, 3, here=7)]
    assert len({Topics.run_key(one) for one in told}) == 2, "compaction would keep the later only"
    for past in (Past(told), Past(told[::-1])):
        assert past.unfinished() == {}
        assert is_over(past, 9)


def test_a_stop_covers_what_came_before_it() -> None:
    """Covers earlier records by offset in its own partition, by time elsewhere."""
    past = Past([mark(RUNNING, 1, here=0), mark(STOP, here=5, at_ms=1000)])
    assert [is_over(past, offset) for offset in (4, 5)] == [True, False]
    assert is_over(past, 70, place=THERE, at_ms=999)
    assert not is_over(past, 70, place=THERE, at_ms=1000)
    assert past.unfinished() == {}


def test_a_mark_comes_back_as_it_was() -> None:
    """Reads a mark back equal; its key distinguishes runs from stops for any ids."""
    marks = [
        mark(RUNNING, 2, here=7),
        mark(STOP, here=5, at_ms=1000),
        replace(mark(PAUSE, here=5, at_ms=1000), until=2_000),
    ]
    assert [decode(encode(one)) for one in marks] == marks
    assert [Topics.run_key(one) for one in marks] == [
        b"link:app%3A1:one:2",
        b"link:app%3A1:one:stop",
        b"link:app%3A1:one:pause",
    ]
    for garbage in (b"[]", b"{}", b'{"run": null}'):
        with pytest.raises(ValueError, match="not a run state"):
            decode(garbage)


def test_a_pause_holds_until_it_is_taken_back() -> None:
    """It concerns the run that was open at its time, and the latest command counts."""
    running, pause = mark(RUNNING, 2, here=7), mark(PAUSE, here=9, at_ms=1000)
    assert Past([running, pause]).fates() == [
        Fate(crawl=CRAWL, run=2, is_over=False, is_paused=True)
    ]
    (resumed,) = Past([running, pause, mark(RESUME, here=11, at_ms=2000)]).fates()
    assert not resumed.is_paused
    (for_now,) = Past([running, replace(pause, until=2_000)]).fates()
    assert for_now == Fate(crawl=CRAWL, run=2, is_over=False, is_paused=True, paused_until=2_000)
    (later,) = Past([pause, mark(RUNNING, 3, here=9)]).fates()
    assert not later.is_paused, "the pause was of an earlier run"


def test_a_pause_is_kept_beside_the_stop_and_the_run() -> None:
    """Compaction keeps the latest word of each sort; a resume replaces the pause before it."""
    marks = [mark(state) for state in (RUNNING, STOP, PAUSE, RESUME)]
    keys = [Topics.run_key(one) for one in marks]
    assert len(set(keys[:3])) == 3
    assert keys[2] == keys[3]


@pytest.mark.parametrize("remember", [None, 0, 86_400])
def test_what_a_crawl_was_told_to_remember_comes_back_with_its_run(remember: int | None) -> None:
    """The mark of a beginning has it, as far as seeds of earlier runs have said so."""
    began = RunMark(crawl=CRAWL, state=RUNNING, run=2, positions={HERE: 7}, remember=remember)
    assert decode(encode(began)) == began
    firing, seen = FiringKey("nightly", 1_795_000_000), {0: b"\x00\xff", 244: b"\x01"}
    ended = replace(began, state="finished", firing=firing, seen=seen)
    assert decode(encode(ended)) == ended
    assert Past([began]).fates() == [Fate(crawl=CRAWL, run=2, is_over=False, remember=remember)]
