"""Stretches of a page in a user's code: how those end that never would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from crawling.failures import PageTimeout
from crawling.page.page import Page, Phase
from crawling.publish.deadlines import LONGEST_S, Deadlines, publishing
from support.pages import page_at


class Hanging:
    """A page whose code waits without end, as far as its deadline lets it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.deadlines = Deadlines(lambda: self.now)
        self.page: Page = page_at("http://a.example/")
        self.page.admitted_at = 0
        self.left = False

    async def wait(self) -> None:
        """Wait for what never comes; note that it was left."""
        try:
            await asyncio.Event().wait()
        finally:
            self.left = True

    async def begin(self) -> asyncio.Task[None]:
        """The stretch, begun."""
        task = asyncio.create_task(self._stretch())
        await asyncio.sleep(0)
        return task

    async def _stretch(self) -> None:
        with self.deadlines.stretch(self.page):
            await self.wait()


@pytest.fixture
def hanging() -> Hanging:
    """A page just leased."""
    return Hanging()


async def test_what_does_not_end_is_cancelled_and_its_error_says_so(hanging: Hanging) -> None:
    """Cancels a page when its time is over, not before; its task is not cancelled."""
    task = await hanging.begin()
    hanging.now = LONGEST_S
    hanging.deadlines.enforce()
    await asyncio.sleep(0)
    assert not hanging.left
    hanging.now += 1
    hanging.deadlines.enforce()
    with pytest.raises(PageTimeout):
        await task
    assert not task.cancelling()


async def test_a_page_in_other_hands_keeps_nothing_here(hanging: Hanging) -> None:
    """Its coroutine ends, however young it is."""
    task = await hanging.begin()
    hanging.page.phase = Phase.STALE
    hanging.deadlines.enforce()
    with pytest.raises(PageTimeout):
        await task


async def test_waiting_for_our_own_services_has_no_deadline(hanging: Hanging) -> None:
    """Kafka may be away for hours: nothing fails because of that."""
    task = await hanging.begin()
    hanging.now = 100 * LONGEST_S
    with publishing(hanging.page):
        hanging.deadlines.enforce()
        await asyncio.sleep(0)
        assert not hanging.left
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_who_ends_the_task_for_another_reason_has_the_last_word(hanging: Hanging) -> None:
    """The end of the process does not count as a timeout of a page."""
    task = await hanging.begin()
    hanging.now = LONGEST_S + 1
    hanging.deadlines.enforce()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_items_pass_and_the_step_that_hangs_ends(hanging: Hanging) -> None:
    """Earlier output is not lost."""

    async def items() -> AsyncIterator[int]:
        yield 1
        yield 2
        await hanging.wait()

    made: dict[int, bool] = {}

    async def consume() -> None:
        async for item in hanging.deadlines.steps(hanging.page, items()):
            made[item] = True

    task = asyncio.create_task(consume())
    await asyncio.sleep(0.01)
    hanging.now = LONGEST_S + 1
    hanging.deadlines.enforce()
    with pytest.raises(PageTimeout):
        await task
    assert [*made] == [1, 2]
