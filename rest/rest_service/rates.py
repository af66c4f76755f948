"""Request rates of domains over time, next to the rates that their rules allow.

Redis has counters per quarter of an hour; crawlers add their requests every ten seconds. While a
domain is viewed, its counters are read repeatedly, and their differences are its rate. For the
time before, there are the means of the quarters.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.stats.domains import read_counts
from crawlstream.stats.windows import QUARTER
from rest_service.sampler import Point

_OVER_S, _LEAST_S = 60.0, 20.0
"""Seconds a rate is averaged over: every crawler reports its counts only each ten seconds."""
_EVERY_S = 5.0
_KEPT_S = 3600.0
_DOMAINS = 200


@dataclass(slots=True)
class _Watched:
    """A domain that is or was viewed."""

    past: Sequence[Point]
    points: deque[Point] = field(default_factory=deque)
    looks: deque[tuple[float, Mapping[float, int]]] = field(default_factory=deque)
    """Time, and the counter of each quarter by its beginning."""


class DomainRates:
    """The domains that were viewed lately."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Watched] = OrderedDict()

    async def look(self, redis: Redis, keys: FrontierKeys, domain: str, rule: ThrottleRule) -> None:
        """Read a domain's counters, unless they were read just now."""
        known, now = self._known.get(domain), time.time()
        if known and known.looks and now - known.looks[-1][0] < _EVERY_S:
            return
        self.note(domain, await read_counts(redis, keys, domain), rule, now=now)

    def note(
        self, domain: str, counts: Mapping[float, int], rule: ThrottleRule, *, now: float
    ) -> None:
        """Add a reading of the counters: beginning of a quarter (epoch s) -> requests."""
        watched = self._known.setdefault(domain, _Watched(_means(counts, now)))
        self._known.move_to_end(domain)
        if len(self._known) > _DOMAINS:
            self._known.popitem(last=False)
        looks = watched.looks
        looks.append((now, counts))
        while len(looks) > 2 and looks[1][0] <= now - _OVER_S:
            looks.popleft()
        at, before = looks[0]
        if now - at < _LEAST_S:
            return
        if now - at > 2 * _OVER_S:
            # The domain was not viewed meanwhile: leave a gap.
            watched.points.append((round(at + _EVERY_S, 2), None, None))
        asked = sum(max(0, count - before.get(begin, 0)) for begin, count in counts.items())
        allowed = 0.0 if rule.is_paused else rule.effective_hits / rule.window_s
        watched.points.append((round(now, 2), round(asked / (now - at), 2), round(allowed, 3)))
        while (watched.points[0][0] or 0) < now - _KEPT_S:
            watched.points.popleft()

    def since(self, domain: str, at: float) -> Sequence[Point]:
        """Return points after a time: epoch s, requests per second, requests per second allowed."""
        if (known := self._known.get(domain)) is None:
            return ()
        return [point for point in (*known.past, *known.points) if (point[0] or 0) > at]


def _means(counts: Mapping[float, int], now: float) -> Sequence[Point]:
    """Return the mean of each past quarter, at its middle; the rules of that time are unknown."""
    width = QUARTER.width_s
    over = [(begin, count) for begin, count in sorted(counts.items()) if begin + width <= now]
    return [(begin + width / 2, round(count / width, 2), None) for begin, count in over]
