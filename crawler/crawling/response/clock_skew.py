"""Compares this machine's clock with those of the sites: a signature is for a minute."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from statistics import median

from scrapy.http import Response

from crawling.metrics import CLOCK_SKEW
from crawling.page.http_date import moment

_EVERY = 256
"""Responses, of which one is looked at."""
_MEDIAN_OF = 31
"""Looked at, so that a few sites whose clocks are wrong do not matter."""
_HALF_S = 0.5
"""A date is cut to whole seconds."""


class ClockSkew:
    """Keeps the difference between this clock and the median site's."""

    def __init__(self, *, every: int = _EVERY, clock: Callable[[], float] = time.time) -> None:
        self._every = every
        self._clock = clock
        self._responses = 0
        self._found: deque[float] = deque(maxlen=_MEDIAN_OF)

    def note(self, response: Response) -> None:
        """Take in the date of a response that has just come, if it is its turn."""
        self._responses += 1
        if self._responses % self._every:
            return
        site = moment((response.headers.get(b"Date") or b"").decode("latin-1"))
        if site is None:
            return
        self._found.append(self._clock() - site - _HALF_S)
        if len(self._found) == _MEDIAN_OF:
            CLOCK_SKEW.set(median(self._found))
