"""The time that a download may take, and that it may stand still while others come in first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LONGEST_PAUSE_S = 300.0
"""Maximum wait of a download for others: half the time that a worker may hold a page."""


class Clock:
    """Calls once when the time of a download is over, or that of its pauses."""

    __slots__ = ("_left_s", "_loop", "_on_end", "_other_left_s", "_timer")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, left_s: float, on_end: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._on_end = on_end
        self._left_s = left_s
        self._other_left_s = LONGEST_PAUSE_S
        self._timer = loop.call_later(left_s, on_end)

    def turn_over(self) -> None:
        """A pause begins, or ends: the one time stands still, the other goes on."""
        left_s = self._timer.when() - self._loop.time()
        self._timer.cancel()
        self._left_s, self._other_left_s = self._other_left_s, left_s
        self._timer = self._loop.call_later(max(self._left_s, 0), self._on_end)

    def stop(self) -> None:
        """The download is over."""
        self._timer.cancel()
