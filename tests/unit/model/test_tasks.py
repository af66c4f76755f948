"""The end of tasks that would not end by themselves."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from crawlstream import tasks


async def _deaf_to(cancellations: int) -> int:
    heard = 0
    while heard < cancellations:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        heard += 1
    return await asyncio.Event().wait()


async def test_a_task_that_forgets_its_cancellation_is_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cancels a task again until it ends, however often it continues."""
    monkeypatch.setattr(tasks, "AGAIN_S", 0.01)
    task = asyncio.create_task(_deaf_to(3))
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await tasks.end([task])
    assert task.cancelled()


async def test_ending_returns_when_last_words_are_said() -> None:
    """A task that cleans up is waited for; an error of its own does not reach the caller."""
    said = []

    async def speak() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            said.append("goodbye")
            raise ValueError("its own affair")

    async with tasks.beside(speak()):
        await asyncio.sleep(0)
    assert said == ["goodbye"]


async def test_nothing_to_end_is_nothing_to_wait_for() -> None:
    """No tasks at all are ended at once."""
    await tasks.end([])
