"""Which partition of the frontier a worker asks for pages next, and how often it calls each.

All its slots are for whoever's turn it is: the partition that was asked longest ago, of those that
may have something. So each is served, however few slots there are. A call costs Redis, and this
process, something even if it carries little: the more partitions are busy, the longer each of them
waits, and the more its calls carry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from crawling.lease.pace import QUICKEST_S, SLOWEST_S

BUSY_AT_ONCE = 2
"""So many partitions are called as often as one alone would be."""
_BUSY_S = 2 * SLOWEST_S
"""A partition whose latest call is older is not busy, whatever that call has carried."""


class Asking(Protocol):
    """The lease loop of one partition."""

    asked_at: float
    """When it last asked for pages, by the monotonic clock; 0: never."""

    def could_ask(self, now: float) -> bool:
        """Return whether it would ask now, if there is room."""

    def was_busy(self, since: float) -> bool:
        """Return whether a call since then has carried anything."""

    def news(self) -> None:
        """It may be its turn."""


class Turns:
    """Of all loops of one worker, most often of one."""

    def __init__(self) -> None:
        self._loops: list[Asking] = []

    def join(self, loop: Asking) -> None:
        """One more."""
        self._loops.append(loop)

    def has(self, loop: Asking, now: float) -> bool:
        """Return whether it is the turn of this one."""
        return len(self._loops) == 1 or all(
            other is loop or not other.could_ask(now)
            for other in self._loops
            if other.asked_at < loop.asked_at
        )

    def pass_on(self, by: Asking) -> None:
        """There may be room that one has left over: tell the others, who waited longest first."""
        for other in self._in_order():
            if other is not by:
                other.news()

    def news(self) -> None:
        """Tell all, who waited longest first."""
        for loop in self._in_order():
            loop.news()

    def _in_order(self) -> Iterable[Asking]:
        return sorted(self._loops, key=lambda loop: loop.asked_at)

    def pause_s(self, now: float) -> float:
        """Least time between two calls of one partition."""
        if len(self._loops) <= BUSY_AT_ONCE:
            return QUICKEST_S
        busy = sum(loop.was_busy(now - _BUSY_S) for loop in self._loops)
        return min(max(QUICKEST_S, QUICKEST_S * busy / BUSY_AT_ONCE), SLOWEST_S)
