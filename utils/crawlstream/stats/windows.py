"""The arithmetic of time buckets: where a moment is counted, and what a window adds up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

WINDOWS_S = (900, 3600, 21600, 43200, 86400, 604800)
"""Windows that are reported for every count, in seconds before now."""

LIFETIME = "lifetime"
"""The bucket, and the window, that never ends."""


@dataclass(frozen=True, slots=True)
class Grain:
    """Buckets of one width, kept for one span."""

    prefix: str
    width_s: int
    span_s: int

    def bucket(self, at_s: float) -> str:
        """Name of the bucket that a moment (epoch seconds) falls into."""
        return f"{self.prefix}{int(at_s // self.width_s)}"

    @property
    def ttl_s(self) -> int:
        """Return how long a bucket is kept: until no window can reach it, whatever the rounding."""
        return self.span_s + 2 * self.width_s

    def buckets(self, now_s: float) -> list[str]:
        """Every bucket that a window may reach, latest first."""
        return [self.bucket(now_s - age * self.width_s) for age in range(self._reach + 1)]

    def weights(self, now_s: float, window_s: int) -> Iterator[float]:
        """The share of each of :meth:`buckets` in the window that ends now.

        The oldest bucket sticks out of the window and counts by the part that lies within, as if
        its events were spread evenly: the sliding-window counter.
        """
        yield from (1.0 for _ in range(window_s // self.width_s))
        yield 1 - (now_s % self.width_s) / self.width_s

    @property
    def _reach(self) -> int:
        return self.span_s // self.width_s


MINUTE = Grain("m", 60, 3600)
QUARTER = Grain("q", 900, 604800)
GRAINS = (MINUTE, QUARTER)


def grain_for(window_s: int) -> Grain:
    """The finest grain that reaches back far enough."""
    return MINUTE if window_s <= MINUTE.span_s else QUARTER
