"""Waiting for what must become true, instead of sleeping."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar, cast, overload

from crawlstream.tasks import wait_until as _wait_until

T = TypeVar("T")

PATIENCE_S = float(os.environ.get("TEST_PATIENCE_S", "180"))
"""However busy the machine is; who runs tests that are to wait in vain asks for less."""


class WaitUntil(Protocol):
    """The type of :func:`wait_until`, for tests that take it as a fixture."""

    @overload
    async def __call__(
        self,
        condition: Callable[[], Awaitable[T | None]],
        *,
        timeout_s: float = PATIENCE_S,
        every_s: float = 0.02,
    ) -> T: ...

    @overload
    async def __call__(
        self,
        condition: Callable[[], T | None],
        *,
        timeout_s: float = PATIENCE_S,
        every_s: float = 0.02,
    ) -> T: ...


wait_until = cast(WaitUntil, partial(_wait_until, timeout_s=PATIENCE_S))
