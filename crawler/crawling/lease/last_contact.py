"""Last answer of Redis: its age, and whether Redis is still the same."""

from __future__ import annotations

from collections.abc import Callable

FENCE_S = 25.0
"""Seconds without an answer of Redis after which nothing is sent: at 30 s leases go to others."""
CONTACT_WITHIN_S = 1.0
"""Seconds without an answer of Redis after which no slow connection is written to: Redis may have
restarted without the grant. After a restart, Redis waits as much longer."""


class LastContact:
    """Last answer of Redis to this process; ``clock`` is in seconds and monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heard_at = clock()
        self._redis_epoch: int | None = None
        self._ahead_s = 0.0

    def note_answer(self, at: float, redis_epoch: int) -> bool:
        """Note the answer to a call sent at ``at``; return whether Redis is the same as before."""
        is_same = self._redis_epoch in {None, redis_epoch}
        self._redis_epoch = redis_epoch
        self._heard_at = max(self._heard_at, at)
        return is_same

    def note_date(self, date_ms: int) -> None:
        """Note the date that Redis has answered with just now."""
        self._ahead_s = date_ms / 1000 - self._clock()

    @property
    def date_s(self) -> float:
        """Epoch seconds, by the clock of Redis."""
        return self._clock() + self._ahead_s

    @property
    def redis_epoch(self) -> int | None:
        """The epoch of the last Redis that answered; None: none has."""
        return self._redis_epoch

    def came_within(self, seconds: float) -> bool:
        """Return whether Redis answered a call of the last ``seconds``."""
        return self._clock() - self._heard_at < seconds
