"""How often a page is visited: the more often it changes, the more often, but far less so.

With the estimated changes a day as `rate`, the interval is ``base x rate^-power``. Cho and
Garcia-Molina (2003) have shown that to visit pages in proportion to their changes is worse than to
visit all alike, and how changes are counted of which visits see the last only: n visits, of which x
have found a change, stand for ``-n ln((n - x + 1/2) / (n + 1/2))`` changes. A page of which little
is known yet is taken for one that has changed half a time in twelve shortest intervals. Older
visits count less and less, for pages change their habits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import re2

from crawlstream.model.recurring.schedule import Schedule
from crawlstream.model.recurring.times import MINUTE_S, times_between, times_of

DAY_S = 86_400.0
BASE_S, POWER = 0.66 * DAY_S, 0.4
_FIRST_CHANGES, _FIRST_INTERVALS = 0.5, 12
"""Prior of the estimate: changes of a page, and the shortest intervals for them."""
_KEPT = 0.9
"""Weight of earlier visits that remains at each visit."""
_STEPS = 8
"""Steps of the pace between an interval and one that is twice as long."""
_SLOWEST = 800
_SHORTEST_S, _LONGEST_S = 1e-3, 1e10
"""Between these a base is looked for."""


@dataclass(frozen=True, slots=True)
class Experience:
    """Results of visits so far; all three weight the latest ones more."""

    visits: float = 0.0
    """Number of visits after an earlier one."""
    changes: float = 0.0
    span_s: float = 0.0
    """Between the first of them and the last."""

    def after(self, *, changed: bool, span_s: float) -> Experience:
        """With one more visit."""
        return Experience(
            self.visits * _KEPT + 1, self.changes * _KEPT + changed, self.span_s * _KEPT + span_s
        )

    def rate(self, least_s: float) -> float:
        """Estimated changes a day, more than 0; ``least_s`` is the shortest interval."""
        missed = (self.visits - self.changes + 0.5) / (self.visits + 0.5)
        changes = _FIRST_CHANGES - self.visits * math.log(missed)
        return changes / (_FIRST_INTERVALS * least_s + self.span_s) * DAY_S


NOTHING = Experience()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Between which the interval of a page is."""

    least_s: float = 3_600.0
    most_s: float = 60 * DAY_S
    url: str | None = None
    """An expression of RE2 that is found in the URL; None: any."""
    domain: frozenset[str] | None = None
    """Registrable domains; None: any."""

    def are_for(self, url: str, domain: str) -> bool:
        """Return whether they are those of a page."""
        if self.domain is not None and domain not in self.domain:
            return False
        return self.url is None or bool(re2.search(self.url, url))

    def keep(self, interval_s: float) -> float:
        """The interval that is allowed and next to this one."""
        return min(max(interval_s, self.least_s), self.most_s)


@dataclass(frozen=True, slots=True)
class Clock:
    """Times of day at which every page is visited, instead of an interval of its own."""

    cron: str
    zone: str = "UTC"

    def next_time(self, after: float, times: float = 1.0) -> float:
        """Return the next time; ``times`` is a factor of the interval until then."""
        first = _next_time(self.cron, self.zone, int(after // MINUTE_S))
        if times <= 1:
            return first
        later = after + (first - after) * times
        return _next_time(self.cron, self.zone, int((later - 1) // MINUTE_S))

    def times_a_day(self, now: float) -> int:
        """Return the number of times in the day that begins now."""
        schedule = _schedule(self.cron, self.zone)
        return len(times_between(schedule, int(now), int(now + DAY_S)))


def _schedule(cron: str, zone: str) -> Schedule:
    return Schedule(appid="", name="", cron=cron, zone=zone)


@lru_cache(maxsize=256)
def _next_time(cron: str, zone: str, minute: int) -> float:
    """Return the first time after any second of a minute: times are whole minutes."""
    at = minute * MINUTE_S
    return float(next(times_of(_schedule(cron, zone), at), at + _LONGEST_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRule:
    """The interval of a page by how often it changes."""

    base_s: float = BASE_S
    """Interval of a page that changes once a day."""
    power: float = POWER
    """0: all pages alike; 1: in proportion to their changes."""
    bounds: Sequence[Bounds] = (Bounds(),)
    """The first that are for a page count; the last are for any."""
    clock: Clock | None = None
    """When every page that is there is visited, whatever its interval would be."""

    def bounds_of(self, url: str, domain: str) -> Bounds:
        """Return the bounds of a page."""
        return next(each for each in self.bounds if each.are_for(url, domain))

    def pace(self, rate: float) -> int:
        """Return the ratio of an interval to the base, as steps of its logarithm."""
        steps = round(-self.power * math.log2(rate) * _STEPS)
        return min(max(steps, -_SLOWEST), _SLOWEST)

    def interval_s(self, rate: float, bounds: Bounds) -> float:
        """Between two visits of a page."""
        return bounds.keep(self.base_s * factor(self.pace(rate)))


def factor(pace: int) -> float:
    """Return how many times the base an interval of a pace is."""
    return float(2 ** (pace / _STEPS))


@dataclass(frozen=True, slots=True)
class Paced:
    """Pages that have pace and bounds in common."""

    pace: int
    bounds: Bounds
    pages: int


def visits_a_day(base_s: float, pages: Collection[Paced]) -> float:
    """Return the visits of all pages a day."""
    of_each = (each.pages / each.bounds.keep(base_s * factor(each.pace)) for each in pages)
    return DAY_S * sum(of_each)


def base_for(per_day: float, pages: Collection[Paced]) -> float | None:
    """Return the base for which all pages need ``per_day`` visits a day; None without pages.

    Where bounds do not allow that, it is the end that comes closest.
    """
    if not pages:
        return None
    low, high = _SHORTEST_S, _LONGEST_S
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if visits_a_day(middle, pages) > per_day else (low, middle)
    return high


def freshness(rate: float, age_s: float) -> float:
    """Return the probability that a page has not changed in the ``age_s`` since it was seen."""
    return math.exp(-rate * max(age_s, 0) / DAY_S)


def paced(rows: Mapping[tuple[int, float, float], int]) -> Sequence[Paced]:
    """Return pages by pace, of their numbers by pace, shortest and longest interval."""
    return [
        Paced(pace, Bounds(least_s=least_s, most_s=most_s), pages)
        for (pace, least_s, most_s), pages in rows.items()
    ]
