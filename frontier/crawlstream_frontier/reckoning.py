"""What one caller knows of the frontier clock without asking: by now it may be so far.

Redis' clock can be set, that of a caller (``monotonic``) cannot. So the frontier clock goes by
Redis' clock, but never further than its caller can bear out: what an earlier call has answered, and
the time since that answer came. The answer was made before it came, so this is never too much. Of
several answers the one that puts the clock farthest took least time on its way.
"""

from __future__ import annotations

from time import monotonic

REPLACE_S = 10.0
"""An answer counts until a better one comes, or the next after so long: clocks drift apart."""
KEPT_S = 60.0
"""A caller that has not called for so long knows nothing."""


class Reckoning:
    """The latest knowledge of one caller; see ``includes/clock.lua`` for what is made of it."""

    def __init__(self) -> None:
        self._redis_epoch = 0
        self._ahead_ms = 0.0
        """The reckoning less the caller's clock."""
        self._learned_at = -KEPT_S

    def known(self) -> tuple[int, int]:
        """The epoch of Redis and the least that the reckoning is now, in ms; 0, 0: unknown."""
        now = monotonic()
        if now - self._learned_at >= KEPT_S:
            return 0, 0
        return self._redis_epoch, int(self._ahead_ms + now * 1000)

    def learn(self, redis_epoch: int, reckoning_ms: int) -> None:
        """Take note of an answer, as soon as it is there; 0 ms says nothing."""
        now = monotonic()
        ahead_ms = reckoning_ms - now * 1000
        is_old = redis_epoch != self._redis_epoch or now - self._learned_at > REPLACE_S
        if reckoning_ms and (is_old or ahead_ms >= self._ahead_ms):
            self._redis_epoch, self._ahead_ms, self._learned_at = redis_epoch, ahead_ms, now
