"""Waiting for what must become true, instead of sleeping."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, overload

from crawlstream.tasks import wait_until as _wait_until

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


wait_until: WaitUntil = _wait_until
