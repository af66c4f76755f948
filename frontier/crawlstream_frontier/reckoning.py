"""Lower bound of the frontier clock that one caller knows without a call.

Redis' clock can be set, that of a caller (``monotonic``) cannot. So the frontier clock follows
Redis' clock, but never further than its caller can confirm: the reckoning of an earlier answer, and
the time since that answer came. The answer was made before it came, so this is never too much. Of
several answers the one that puts the clock farthest took least time on its way.
"""

from __future__ import annotations

from time import monotonic

REPLACE_S = 10.0
"""An answer counts until a better one comes, or the next after this time: clocks drift apart."""
KEPT_S = 60.0
"""Time after its last call when a caller's knowledge is too old to use."""


class Reckoning:
    """The latest knowledge of one caller; ``includes/clock.lua`` uses it."""

    def __init__(self) -> None:
        self._redis_epoch = 0
        self._ahead_ms = 0.0
        """The reckoning less the caller's clock."""
        self._learned_at = -KEPT_S

    def known(self) -> tuple[int, int]:
        """Return the epoch of Redis and the least present reckoning in ms; 0, 0: unknown."""
        now = monotonic()
        if now - self._learned_at >= KEPT_S:
            return 0, 0
        return self._redis_epoch, int(self._ahead_ms + now * 1000)

    def learn(self, redis_epoch: int, reckoning_ms: int) -> None:
        """Record an answer as soon as it arrives; 0 ms has no information."""
        now = monotonic()
        ahead_ms = reckoning_ms - now * 1000
        is_old = redis_epoch != self._redis_epoch or now - self._learned_at > REPLACE_S
        if reckoning_ms and (is_old or ahead_ms >= self._ahead_ms):
            self._redis_epoch, self._ahead_ms, self._learned_at = redis_epoch, ahead_ms, now
