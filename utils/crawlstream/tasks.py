"""Helpers for asyncio tasks: run them concurrently, wait for conditions, and end tasks."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast, overload

T = TypeVar("T")

AGAIN_S = 2.0
"""Seconds after which a task that has not ended is cancelled again; clean-up takes less."""

_ROUNDS_TO_LEAVE = 10


async def end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks until all have ended; do not raise their errors.

    A single cancellation is not enough: ``asyncio.wait_for`` of Python 3.11, which redis-py uses to
    write, loses a cancellation that arrives just when it is done, so a loop would never end.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        ended, left = await asyncio.wait(left, timeout=AGAIN_S)
        for task in ended:
            if not task.cancelled():
                # Retrieve the error, or asyncio logs that it was never retrieved.
                task.exception()


async def let_leave() -> None:
    """Yield until an already started Redis call is sent, before CPU-bound work begins.

    redis-py checks its connection first, which takes several rounds of the event loop.
    """
    for _ in range(_ROUNDS_TO_LEAVE):
        await asyncio.sleep(0)


async def together(work: Iterable[Awaitable[T]]) -> list[T]:
    """Run all concurrently and return their results; raise the first error when all have ended."""
    ended = await asyncio.gather(*work, return_exceptions=True)
    for each in ended:
        if isinstance(each, BaseException):
            raise each
    return cast("list[T]", ended)


@asynccontextmanager
async def beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run helper tasks during the block; they do not end by themselves."""
    helpers = [asyncio.create_task(one) for one in work]
    try:
        yield helpers
    finally:
        await end(helpers)


@overload
async def wait_until(
    condition: Callable[[], Awaitable[T | None]],
    *,
    timeout_s: float = 60.0,
    every_s: float = 0.02,
) -> T: ...


@overload
async def wait_until(
    condition: Callable[[], T | None], *, timeout_s: float = 60.0, every_s: float = 0.02
) -> T: ...


async def wait_until(
    condition: Callable[[], Any], *, timeout_s: float = 60.0, every_s: float = 0.02
) -> Any:
    """Call ``condition`` (plain or async) until its result is true, and return the result.

    Raise TimeoutError with the last result after ``timeout_s`` seconds.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        value = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"not true within {timeout_s} s; last answer: {value!r}")
        await asyncio.sleep(every_s)


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own, even if one is running, and return its result."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group and of the groups in it; yield any other error itself."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from leaves_of(part)
    else:
        yield error
