"""The last word from Redis: how long ago it came, and whether it is the same Redis still."""

from __future__ import annotations

from collections.abc import Callable

FENCE_S = 25.0
"""Without word from Redis for so long nothing is sent: at 30 s it gives the holds to others."""
WORD_BY_S = 1.0
"""Without word from Redis for so long no connection is written to that took its time: Redis may be
another by then, which knows nothing of the grant. It waits so much longer after a restart."""


class Word:
    """What this process has last heard of Redis; ``clock`` is in seconds and monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heard_at = clock()
        self._redis_epoch: int | None = None

    def heard(self, at: float, redis_epoch: int) -> bool:
        """A call that left at ``at`` was answered; whether by the same Redis as before."""
        is_same = self._redis_epoch in {None, redis_epoch}
        self._redis_epoch = redis_epoch
        self._heard_at = max(self._heard_at, at)
        return is_same

    @property
    def redis_epoch(self) -> int | None:
        """The epoch of the last Redis that answered; None: none has."""
        return self._redis_epoch

    def came_within(self, seconds: float) -> bool:
        """Return whether there was word so lately."""
        return self._clock() - self._heard_at < seconds
