"""An event loop whose time passes as soon as nothing is left to do: a minute takes milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    """Waits for nothing, and has the clock of its loop moved instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return events that are ready; without any, time goes on to the next timer."""
        found = super().select(0)
        if not found and timeout is None:
            raise RuntimeError("everything waits for ever")
        self.now += 0.0 if found else timeout or 0.0
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time, and that of ``monotonic``, begins at 0."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Seconds that would have passed."""
        return self._clock.now

    monotonic = time
    """As ``time.monotonic``: stands in for the module."""


def run_virtually(loop: VirtualLoop, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, at the end of its virtual time."""
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
