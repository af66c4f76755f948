"""Pause of a worker between calls of Redis: longer where Redis is busy.

Redis answers one call after the other, and a call costs it something even if it carries little. As
many workers as it can serve would each wait for all others; if they call less often instead, each
call carries more. The quickest recent call is the measure: the others may have carried much, or
waited for this process.
"""

from __future__ import annotations

from collections import deque

STARVING_S = 0.010
"""Least time between two exchanges while no slot has anything to do."""
QUICKEST_S = 0.025
"""Least time between two exchanges during downloads: several pages share an exchange, which costs
this process as much as parsing a page. A moderated domain waits for reports of departures, so it
is no longer."""
SLOWEST_S = 0.100
"""Longest pause while Redis is slow. Pages that are ready wait no longer than this."""
TIMES = 10
"""Length of a pause, in durations of a call."""
_LATEST = 8


class Pace:
    """Pace of one worker; it begins as if Redis were idle."""

    def __init__(self) -> None:
        self._took_s: deque[float] = deque(maxlen=_LATEST)

    def answered(self, took_s: float) -> None:
        """Note the time that a call took."""
        self._took_s.append(took_s)

    @property
    def pause_s(self) -> float:
        """Least time between two exchanges while there are downloads."""
        quickest_s = min(self._took_s, default=0.0)
        return min(max(QUICKEST_S, TIMES * quickest_s), SLOWEST_S)
