"""Health of the proxies as this process knows it, from its own results and from other processes.

A proxy is *out* for all sites after certain failures of its own. It *rests* for one site that it,
or the path behind it, could not reach, or that has refused it. Sending safely does not depend on
this state: if it is lost, it is learnt again.
"""

from __future__ import annotations

import random
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from zlib import crc32

from crawling.egress.notes import Notes
from crawlstream_frontier.proxy_reports import ALL_SITES, REFUSED, ProxyNews, ProxyRest

FAILURES = 5
"""Sure failures in a row after which a proxy is out."""
FIRST_OUT_S, LONGEST_OUT_S = 30.0, 3600.0
"""Out for so long at most; each time without a success in between twice as long: by chance any part
of that, so that not all come back at once."""
FIRST_REST_S = 60.0
"""Seconds of a proxy's first rest for a site after an unclear failure; each next one doubles."""
ELSEWHERE_S = 60.0
"""A proxy that came through to another site so lately works."""
SUSPECT = 3
"""Number of working proxies that must fail to reach a site before it counts as silent."""

TURN_S, LONGEST_TURN_S = 1.0, 10.0
"""Workers try a proxy that was out one after the other, so far apart."""

_MOST_RESTS = 100_000
_MOST_SITES = 20_000


@dataclass(slots=True)
class _Health:
    """Health of one proxy."""

    failures: int = 0
    """Consecutive failures."""
    times_out: int = 0
    """Number of times that it was out without a success in between."""
    out_until: float = 0.0
    answers: tuple[tuple[float, str], tuple[float, str]] = ((-1e9, ""), (-1e9, ""))
    """When it last came through, and to which site: to two different ones."""
    lost: set[str] = field(default_factory=set)
    """Sites that it found no way to since it last came through to any."""


@dataclass(slots=True)
class _Rest:
    """Rest of one proxy for one site."""

    until: float
    steps: int


class LocalBook:
    """Proxies that are out or rest, by id."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.notes = Notes()
        """Results that are not reported to the cluster yet."""
        self.workers = self.place = 0
        """How many use proxies, and how many of them come before this one."""
        self._known: frozenset[str] = frozenset()
        self._bans: dict[tuple[str, str], float] = {}
        self._health: dict[str, _Health] = {}
        self._rests: OrderedDict[tuple[str, str], _Rest] = OrderedDict()
        self._blind: OrderedDict[str, set[str]] = OrderedDict()
        self.busy: Counter[str] = Counter()
        """Requests in flight through each proxy."""

    def keep(self, ids: frozenset[str]) -> None:
        """Forget all proxies but these."""
        self._known = ids
        for known in self._health.keys() - ids:
            del self._health[known]

    # Asking.

    def fit_at(self, proxy: str, site: str) -> float:
        """Return when a proxy may be used for a site, in monotonic seconds; past: now."""
        return max(self.out_until(proxy), self._rests_until(proxy, site))

    def is_fit(self, proxy: str, site: str) -> bool:
        """Return whether a proxy may be used now: by one request at a time until one succeeds."""
        now, health = self._clock(), self._health.get(proxy)
        if health is not None:
            is_on_trial = health.times_out > 0
            if health.out_until > now or (is_on_trial and self.busy[proxy]):
                return False
        rest = self._rests.get((proxy, site))
        if rest is not None and rest.until > now:
            return False
        return not self._bans or self._rests_until(proxy, site) <= now

    def rests(self, proxy: str, site: str) -> bool:
        """Return whether it leaves the site alone just now, by itself or by a person's word."""
        return self._rests_until(proxy, site) > self._clock()

    def _rests_until(self, proxy: str, site: str) -> float:
        rest = self._rests.get((proxy, site))
        bans = (self._bans.get((proxy, where), 0.0) for where in (site, ALL_SITES))
        return max(rest.until if rest else 0.0, *bans)

    def out_until(self, proxy: str) -> float:
        """Return when it is back for all sites; 0: it is not out."""
        health = self._health.get(proxy)
        return health.out_until if health else 0.0

    # Telling.

    def failed(self, proxy: str, *, at_once: bool = False) -> None:
        """It has failed, surely; ``at_once``: in a way that will not pass by itself."""
        self.notes.failed(proxy, at_once=at_once)
        self._fail(proxy, at_once=at_once)

    def _fail(self, proxy: str, *, at_once: bool) -> None:
        health = self._health.setdefault(proxy, _Health())
        health.failures += 1
        if at_once or health.failures >= FAILURES or health.times_out:
            span_s = min(FIRST_OUT_S * 2**health.times_out, LONGEST_OUT_S)
            health.out_until = self._clock() + span_s * random.random()  # noqa: S311
            health.times_out = min(health.times_out + 1, 20)
            health.failures = 0

    def rest(self, proxy: str, site: str, for_s: float) -> None:
        """Use the proxy for no request to a site for this time."""
        if for_s > 0:
            self._note_rest(proxy, site, _Rest(self._clock() + for_s, 0))
            self.notes.rest(ProxyRest(proxy, site, int(for_s * 1000), REFUSED))

    def found_no_way(self, proxy: str, site: str, *, most_rest_s: float) -> None:
        """Note that a proxy did not reach a site, for an unclear reason.

        ``most_rest_s``: the longest rest for the site, in seconds.
        """
        before = self._rests.get((proxy, site))
        steps = before.steps + 1 if before else 0
        span_s = min(FIRST_REST_S * 2 ** min(steps, 10), max(most_rest_s, FIRST_REST_S))
        rest_s = min(span_s, most_rest_s)
        self._note_rest(proxy, site, _Rest(self._clock() + rest_s, steps))
        self.notes.lost(proxy, site)
        self.notes.rest(ProxyRest(proxy, site, int(rest_s * 1000), steps))
        self._lose(proxy, site)
        if self._works_elsewhere(proxy, site):
            self._miss(proxy, site)

    def is_silent(self, site: str, *, of: int) -> bool:
        """Return whether a site counts as silent through a pool of ``of`` proxies.

        One bad pool is not enough: only proxies that reached other sites count.
        """
        return len(self._blind.get(site, ())) >= min(SUSPECT, max(of, 1))

    def came_through(
        self, proxy: str, site: str, *, ms: float = 0.0, is_refusal: bool = False
    ) -> None:
        """The site has answered through it, whatever it said, after so long."""
        self.notes.came_through(proxy, site, ms=ms, is_refusal=is_refusal)
        health = self._health.setdefault(proxy, _Health())
        health.failures = health.times_out = 0
        health.out_until = 0.0
        health.lost.clear()
        latest, other = health.answers
        health.answers = ((self._clock(), site), other if latest[1] == site else latest)
        had_rest = self._rests.pop((proxy, site), None)
        if self._blind.pop(site, None) or had_rest:
            self.notes.answered(proxy, site)

    def receive(self, news: ProxyNews) -> None:
        """Something that the cluster knows of; of this process' own news what all go by."""
        if news.proxy not in self._known:
            return
        pair, until = (news.proxy, news.site), self._clock() + news.left_s
        if news.kind == "o":
            health = self._health.setdefault(news.proxy, _Health())
            health.failures, health.times_out = 0, news.number
            health.out_until = until + self._turn_s(news.proxy) if news.left_s > 0 else 0.0
        elif news.kind == "b":
            self._bans = {one: end for one, end in self._bans.items() if end > self._clock()}
            self._bans[pair] = until
        elif news.kind == "s":
            self._miss(*pair)
        elif news.kind == "a":
            self._blind.pop(news.site, None)
        elif news.left_s > 0:
            self._note_rest(*pair, _Rest(until, max(news.number, 0)))
        else:
            self._rests.pop(pair, None)

    def _turn_s(self, proxy: str) -> float:
        """Return how long this process lets others try first."""
        turn = (crc32(proxy.encode()) - self.place) % max(self.workers, 1)
        return min(turn * TURN_S, LONGEST_TURN_S)

    def _miss(self, proxy: str, site: str) -> None:
        self._blind.setdefault(site, set()).add(proxy)
        if len(self._blind) > _MOST_SITES:
            self._blind.popitem(last=False)

    def _lose(self, proxy: str, site: str) -> None:
        """Take out a proxy that reaches no site at all: it may be mute."""
        lost = self._health.setdefault(proxy, _Health()).lost
        lost.add(site)
        if len(lost) >= FAILURES:
            lost.clear()
            self._fail(proxy, at_once=True)

    def _works_elsewhere(self, proxy: str, site: str) -> bool:
        since = self._clock() - ELSEWHERE_S
        health = self._health.get(proxy)
        return health is not None and any(
            at > since and where != site for at, where in health.answers
        )

    def _note_rest(self, proxy: str, site: str, rest: _Rest) -> None:
        self._rests[proxy, site] = rest
        self._rests.move_to_end((proxy, site))
        if len(self._rests) > _MOST_RESTS:
            self._rests.popitem(last=False)
