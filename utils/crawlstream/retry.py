"""Trying again: growing pauses, services that are waited for, a bounded number of attempts.

How long to pause, and which errors are worth another attempt, each caller says itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from crawlstream.errors import Unavailable

T = TypeVar("T")
Attempt = Callable[[], Awaitable[T]]
Errors = tuple[type[Exception], ...]


class Backoff(Iterator[float]):
    """Pauses in seconds, each twice the one before, from ``first_s`` up to ``longest_s``."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = self._next_s = first_s
        self._longest_s = longest_s

    def __next__(self) -> float:
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Begin with the first pause again: the last attempt went well."""
        self._next_s = self._first_s


async def until_available(
    attempt: Attempt[T],
    *,
    backoff: Backoff,
    on_wait: Callable[[Exception, float], object],
    errors: Errors = (Unavailable,),
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> T:
    """Repeat ``attempt`` until it raises none of ``errors``; every other error is raised at once.

    Before each pause ``on_wait`` is called with the error and the seconds of the pause. What it or
    ``sleep`` raises ends the waiting.
    """
    while True:
        try:
            return await attempt()
        except errors as error:
            pause_s = next(backoff)
            on_wait(error, pause_s)
        await sleep(pause_s)


async def up_to(
    tries: int,
    attempt: Attempt[T],
    *,
    pause_s: float,
    on_failure: Callable[[Exception, int], object],
    fatal: Errors = (),
) -> T:
    """Make at most ``tries`` attempts, ``pause_s`` apart, and raise the error of the last one.

    Errors of ``fatal`` are raised at once. Before each pause ``on_failure`` is called with the
    error and the number of attempts that are left.
    """
    for left in range(tries - 1, 0, -1):
        try:
            return await attempt()
        except fatal:
            raise
        except Exception as error:  # noqa: BLE001  nobody knows what it is: the last one is raised
            on_failure(error, left)
        await asyncio.sleep(pause_s)
    return await attempt()
