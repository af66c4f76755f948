"""Choose the partition from which a worker next requests pages, and the pause between calls.

All its slots are for the partition whose turn it is: the one requested longest ago among those
that may have pages. So each is served, however few slots there are. A call costs Redis, and this
process, something even if it carries little: the more partitions are busy, the longer each of them
waits, and the more its calls carry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from crawling.lease.pace import QUICKEST_S, SLOWEST_S

BUSY_AT_ONCE = 2
"""Number of busy partitions that are each called as often as a single one would be."""
_BUSY_S = 2 * SLOWEST_S
"""A partition whose latest call is older is not busy, whatever that call has carried."""


class PartitionLoop(Protocol):
    """The lease loop of one partition."""

    asked_at: float
    """Time of its last request for pages, by the monotonic clock; 0: never."""

    def could_request(self, now: float) -> bool:
        """Return whether it would request pages now, if there is room."""

    def was_busy(self, since: float) -> bool:
        """Return whether a call since then has carried anything."""

    def news(self) -> None:
        """Notify it that it may be its turn."""


class PartitionRotation:
    """Turns of all loops of one worker; most workers have one loop."""

    def __init__(self) -> None:
        self._loops: list[PartitionLoop] = []

    def join(self, loop: PartitionLoop) -> None:
        """Add a loop."""
        self._loops.append(loop)

    def has(self, loop: PartitionLoop, now: float) -> bool:
        """Return whether it is the turn of ``loop``."""
        return len(self._loops) == 1 or all(
            other is loop or not other.could_request(now)
            for other in self._loops
            if other.asked_at < loop.asked_at
        )

    def pass_on(self, by: PartitionLoop) -> None:
        """Notify the other loops of room that one has left; the longest waiting first."""
        for other in self._in_order():
            if other is not by:
                other.news()

    def news(self) -> None:
        """Notify all loops, the longest waiting first."""
        for loop in self._in_order():
            loop.news()

    def _in_order(self) -> Iterable[PartitionLoop]:
        return sorted(self._loops, key=lambda loop: loop.asked_at)

    def pause_s(self, now: float) -> float:
        """Return the least seconds between two calls of one partition."""
        if len(self._loops) <= BUSY_AT_ONCE:
            return QUICKEST_S
        busy = sum(loop.was_busy(now - _BUSY_S) for loop in self._loops)
        return min(max(QUICKEST_S, QUICKEST_S * busy / BUSY_AT_ONCE), SLOWEST_S)
