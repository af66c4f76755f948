"""Waiting for what must become true, instead of sleeping."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar, overload

T = TypeVar("T")


class WaitUntil(Protocol):
    """The type of :func:`wait_until`, for tests that take it as a fixture."""

    @overload
    async def __call__(
        self,
        condition: Callable[[], Awaitable[T | None]],
        *,
        timeout_s: float = 60.0,
        every_s: float = 0.02,
    ) -> T: ...

    @overload
    async def __call__(
        self,
        condition: Callable[[], T | None],
        *,
        timeout_s: float = 60.0,
        every_s: float = 0.02,
    ) -> T: ...


async def _wait_until(
    condition: Callable[[], Any], *, timeout_s: float = 60.0, every_s: float = 0.02
) -> Any:
    """Ask ``condition`` (plain or async) until its answer is true, and return that answer.

    The test fails, with the last answer, when ``timeout_s`` seconds were not enough.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        value = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {timeout_s} s; last answer: {value!r}")
        await asyncio.sleep(every_s)


wait_until: WaitUntil = _wait_until
