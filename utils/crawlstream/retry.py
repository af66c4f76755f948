"""Retries: growing pauses, waiting for a service, a bounded number of attempts.

The caller chooses the pauses and the errors that are worth another attempt.
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
    """Pauses in seconds, each twice the previous one, from ``first_s`` up to ``longest_s``."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = self._next_s = first_s
        self._longest_s = longest_s

    def __next__(self) -> float:
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Start with the first pause again, after a successful attempt."""
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

    Before each pause ``on_wait`` is called with the error and the seconds of the pause. An error
    of ``on_wait`` or ``sleep`` ends the waiting.
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
        except Exception as error:  # noqa: BLE001  its type is unknown; the last one is raised
            on_failure(error, left)
        await asyncio.sleep(pause_s)
    return await attempt()
