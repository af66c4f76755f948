"""Extraction in workers: callers wait for a page each, and hostile pages cost a worker at most."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import psutil
import pytest

from crawlstream_chaos.processes import freeze
from crawlstream_extract.extract import Extracted, ExtractRequest
from crawlstream_extract.work import LIMITS, extraction, request_bytes
from crawlstream_extract.workers.queue import WorkerQueue, WorkersBusy
from support.waiting import WaitUntil


class Desk:
    """A queue of workers, and which of them have died."""

    def __init__(self, *, most_waiting: int = 32, **limits: Any) -> None:
        self.died: Counter[str] = Counter()
        self.queue = WorkerQueue(
            extraction(),
            replace(LIMITS, **limits),
            most_waiting=most_waiting,
            died=lambda lost: self.died.update([lost.kind]),
        )

    async def markdown(self, body: bytes) -> Extracted:
        """Return Markdown of a page."""
        request = ExtractRequest(
            body=body, encoding="utf-8", mime="text/html", url="http://a/", formats=["markdown"]
        )
        return await self.queue.run(request_bytes(request))


@asynccontextmanager
async def opened(**limits: Any) -> AsyncIterator[Desk]:
    """A desk for the length of a block; no worker is left behind."""
    desk = Desk(**limits)
    await desk.queue.open()
    try:
        yield desk
    finally:
        await desk.queue.close()
    assert not workers()


def workers() -> list[psutil.Process]:
    """The workers of this process that live."""
    found = psutil.Process().children()
    return [each for each in found if "crawlstream_extract.workers.child" in each.cmdline()]


async def test_each_caller_gets_the_outcome_of_its_page() -> None:
    """Returns to each of many concurrent callers the outcome of its own page."""
    async with opened() as desk:
        pages = [b"<p>page %d" % n for n in range(30)]
        found = await asyncio.gather(*map(desk.markdown, pages))
    assert [each.formats["markdown"] for each in found] == [f"page {n}" for n in range(30)]
    assert not desk.died


async def test_a_second_worker_starts_when_pages_wait_for_the_first() -> None:
    """Callers that come one after the other need no more than one, which is ready sooner."""
    async with opened(workers=2) as desk:
        for n in range(3):
            await desk.markdown(b"<p>page %d" % n)
        assert len(workers()) == 1
        await asyncio.gather(*(desk.markdown(b"<p>x") for _ in range(5)))
        assert len(workers()) == 2


async def test_a_worker_that_is_killed_is_replaced(wait_until: WaitUntil) -> None:
    """Its page has no formats and says why; the next page has."""
    async with opened(workers=1) as desk:
        (worker,) = workers()
        freeze(worker.pid)
        asked = asyncio.create_task(desk.markdown(b"<p>x"))
        await asyncio.sleep(0)
        os.kill(worker.pid, signal.SIGKILL)
        lost = await asked
        assert (lost.formats, lost.problems) == ({}, ("extract: killed",))
        await wait_until(lambda: [each for each in workers() if each.pid != worker.pid])
        assert (await desk.markdown(b"<p>y")).formats == {"markdown": "y"}
    assert desk.died == {"killed": 1}


async def test_a_page_has_its_time() -> None:
    """Gives a page up when its time is over; other pages continue."""
    async with opened(workers=2, timeout_s=3.0) as desk:
        frozen = workers()[0]
        freeze(frozen.pid)
        found = await asyncio.gather(*(desk.markdown(b"<p>x") for _ in range(2)))
        assert sorted(each.problems for each in found) == [(), ("extract: timeout",)]
    assert desk.died == {"timeout": 1}


async def test_too_many_pages_are_refused() -> None:
    """Refuses pages at once if many wait, and later if no worker becomes free."""
    async with opened(workers=1, timeout_s=1.0, most_waiting=1) as desk:
        freeze(workers()[0].pid)
        first = asyncio.create_task(desk.markdown(b"<p>x"))
        await asyncio.sleep(0)
        second = asyncio.create_task(desk.markdown(b"<p>x"))
        await asyncio.sleep(0)
        with pytest.raises(WorkersBusy, match="1 wait"):
            await desk.markdown(b"<p>x")
        assert (await first).problems == ("extract: timeout",)
        with pytest.raises(WorkersBusy, match="no worker was free"):
            await second


async def test_a_caller_that_leaves_takes_no_answer_of_others() -> None:
    """The worker finishes its page, and its answer is dropped."""
    async with opened(workers=1) as desk:
        asked = asyncio.create_task(desk.markdown(b"<p>first"))
        await asyncio.sleep(0.01)
        asked.cancel()
        assert (await desk.markdown(b"<p>second")).formats == {"markdown": "second"}
    assert not desk.died
