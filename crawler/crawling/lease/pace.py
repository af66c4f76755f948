"""How soon a worker calls Redis again: later where Redis has much to do.

Redis answers one call after the other, and a call costs it something even if it carries little. As
many workers as it can serve would each wait for all others; if they call less often instead, each
call carries more. The quickest of the latest calls tells: the others may have carried much, or
waited for this process.
"""

from __future__ import annotations

from collections import deque

STARVING_S = 0.010
"""Least time between two exchanges while no slot has anything to do."""
QUICKEST_S = 0.025
"""The same while there are downloads: several pages share an exchange, which costs this process
as much as parsing a page. No longer, because a moderated domain waits for word of departures."""
SLOWEST_S = 0.100
"""The same while Redis is slow. Pages that are ready wait no longer than this."""
TIMES = 10
"""A pause is so many times as long as a call takes."""
_LATEST = 8


class Pace:
    """Of one worker; it begins as if Redis had nothing else to do."""

    def __init__(self) -> None:
        self._took_s: deque[float] = deque(maxlen=_LATEST)

    def answered(self, took_s: float) -> None:
        """A call has taken so long."""
        self._took_s.append(took_s)

    @property
    def pause_s(self) -> float:
        """Least time between two exchanges while there are downloads."""
        quickest_s = min(self._took_s, default=0.0)
        return min(max(QUICKEST_S, TIMES * quickest_s), SLOWEST_S)
