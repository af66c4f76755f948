"""Tasks: how they wait, leave, go on until they are cancelled, and end."""

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
"""A task that has not ended after this is cancelled once more; last words take less."""

_ROUNDS_TO_LEAVE = 10


async def end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks until every one has ended; what they raise stays with them.

    Once is not enough: ``asyncio.wait_for`` of Python 3.11, through which redis-py writes, forgets
    a cancellation that comes just when it is done, and a loop would go on for ever.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        ended, left = await asyncio.wait(left, timeout=AGAIN_S)
        for task in ended:
            if not task.cancelled():
                # Seen: asyncio need not complain that nobody asked.
                task.exception()


async def let_leave() -> None:
    """Yield until an already started Redis call is sent, before CPU-bound work begins.

    redis-py checks its connection first, which takes several rounds of the event loop.
    """
    for _ in range(_ROUNDS_TO_LEAVE):
        await asyncio.sleep(0)


async def together(work: Iterable[Awaitable[T]]) -> list[T]:
    """What all of them return; the first error is raised when all have ended."""
    ended = await asyncio.gather(*work, return_exceptions=True)
    for each in ended:
        if isinstance(each, BaseException):
            raise each
    return cast("list[T]", ended)


@asynccontextmanager
async def beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run helpers for the length of the block; they never end by themselves."""
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
    """Ask ``condition`` (plain or async) until its answer is true, and return that answer.

    TimeoutError, with the last answer, when ``timeout_s`` seconds were not enough.
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
    """What a coroutine returns; it runs on a loop of its own, even where one runs already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """The errors of a group, and of groups in it; of any other error itself."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from leaves_of(part)
    else:
        yield error
