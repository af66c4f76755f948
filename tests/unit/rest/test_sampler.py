"""Results of samples: rates, timelines, and queries that many callers share."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from crawlstream.stats.traffic import Traffic
from rest_service.sampler import Sampler, Timeline, chart_point

_MANY = 10_000


def _sampler() -> Sampler:
    nobody: Any = None
    return Sampler(nobody, FrontierKeys(), nobody)


def _crawl(done: int) -> CrawlState:
    zero: dict[str, Any] = dict.fromkeys(
        (*("queued", "delayed", "held", "failed", "redirected", "stopped", "expired"),), 0
    )
    return CrawlState(
        crawl=CrawlKey("link", "app", "crawl"),
        run=1,
        state="running",
        started_at=0,
        last_activity=0,
        expires=0,
        admitted=done,
        done=done,
        **zero,
    )


def test_a_point_has_gaps_where_nothing_came() -> None:
    """Shows neither success nor latency without downloads, and a rate of zero."""
    assert chart_point(7, Traffic((0, 0, 0, 0, 0), 0), 5) == (7, 0, 0, 0, 0, 0, None, None, None)
    busy = Traffic((5, 0, 10, 0, 10), 200)
    assert chart_point(7, busy, 5, 3) == (7, 1, 0, 2, 0, 2, 3, 40, 10)


def test_counters_that_began_anew_are_no_negative_traffic() -> None:
    """A Redis that was emptied starts from 0."""
    before, now = Traffic((5, 5, 5, 5, 5), 100), Traffic((0, 0, 0, 0, 7), 3)
    assert now.since(before) == Traffic((0, 0, 0, 0, 2), 0)


def test_a_crawl_that_just_began_has_its_begin_on_the_chart() -> None:
    """A source that is older when it is first seen has no earlier samples."""
    young, old = Timeline(), Timeline()
    one = replace(_crawl(3), started_at=100.0)
    young.note(104.0, one)
    old.note(200.0, one)
    assert [list(point) for point in young.points] == [[100, 0, 0, 0], [104, 3, 0, 0]]
    assert len(old.points) == 1


def test_a_timeline_stays_small_and_whole() -> None:
    """Keeps the first and latest moment of a crawl and some between, however long it lasts."""
    timeline = Timeline()
    for moment in range(_MANY):
        timeline.note(float(moment), _crawl(moment))
        timeline.note(moment + 0.5, _crawl(moment))
    times = [point[0] for point in timeline.points]
    assert (times[0], times[-1]) == (0.0, float(_MANY - 1))
    assert 100 < len(times) <= 241
    assert times == sorted(set(times), key=lambda at: at or 0)


async def test_many_ask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers at the same moment share a query, and one that leaves does not end it."""
    # On a busy machine 200 callers may take longer than an answer is fresh.
    monkeypatch.setattr("rest_service.sampler._FRESH_S", 60.0)
    sampler, asked = _sampler(), 0
    may_answer = asyncio.Event()

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await may_answer.wait()
        return asked

    tasks = [asyncio.create_task(sampler.shared("x", ask)) for _ in range(200)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    may_answer.set()
    assert await asyncio.gather(*tasks[1:]) == [1] * 199
    assert await sampler.shared("y", ask) == 2


async def test_an_answer_that_failed_is_an_error_for_all_who_asked() -> None:
    """A failure is not shared as an answer."""
    sampler = _sampler()

    async def ask() -> None:
        raise ValueError

    told = await asyncio.gather(
        *(sampler.shared("x", ask) for _ in range(3)), return_exceptions=True
    )
    assert [type(one) for one in told] == [ValueError] * 3
