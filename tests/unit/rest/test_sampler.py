"""What is worked out of readings: rates, timelines, and questions asked once for many."""

from __future__ import annotations

import asyncio
from typing import Any

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from rest_service.sampler import Sampler, Timeline, latency_ms

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


def test_latency_is_of_what_came_lately() -> None:
    """Of two readings what lies between counts, over the end of a quarter of an hour too."""
    assert latency_ms({"q1": (10, 1000)}, {"q1": (12, 1100)}) == 50
    assert latency_ms({"q1": (10, 1000)}, {"q1": (11, 1010), "q2": (1, 30)}) == 20
    assert latency_ms({"q1": (5, 1), "q2": (10, 1000)}, {"q2": (11, 1070), "q3": (1, 30)}) == 50


def test_without_responses_there_is_no_latency() -> None:
    """Silence is not a latency of zero; counters of a Redis that began anew are none at all."""
    assert latency_ms({"q1": (10, 1000)}, {"q1": (10, 1000)}) is None
    assert latency_ms({"q1": (10, 1000)}, {"q1": (2, 20)}) is None
    assert latency_ms({}, {}) is None


def test_a_timeline_stays_small_and_whole() -> None:
    """However long a crawl lasts, its first and its latest moment are kept, and some between."""
    timeline = Timeline()
    for moment in range(_MANY):
        timeline.note(float(moment), _crawl(moment))
        timeline.note(moment + 0.5, _crawl(moment))
    times = [point[0] for point in timeline.points]
    assert (times[0], times[-1]) == (0.0, float(_MANY - 1))
    assert 100 < len(times) <= 241
    assert times == sorted(set(times), key=lambda at: at or 0)


async def test_many_ask_once() -> None:
    """What many want at the same moment is asked once, and whoever leaves spoils nothing."""
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
    """Nobody takes a failure for an answer."""
    sampler = _sampler()

    async def ask() -> None:
        raise ValueError

    told = await asyncio.gather(
        *(sampler.shared("x", ask) for _ in range(3)), return_exceptions=True
    )
    assert [type(one) for one in told] == [ValueError] * 3
