"""Results of proxies that this process has not reported to the cluster yet."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from crawlstream_frontier.proxy_reports import (
    PoolSpend,
    ProxyOutcome,
    ProxyReport,
    ProxyRest,
    ProxyUse,
)

MOST_AT_ONCE = 500
"""Most outcomes, rests, answers and uses in one report; the others follow in the next."""
USER_FOR_S = 60.0
"""Seconds after its last use for which a process counts as a user of proxies."""

_MOST_KEPT = 10_000
_SITES = 2
_LOST = 5

_What = TypeVar("_What")

Pair = tuple[str, str]
"""Proxy and site."""


class Notes:
    """Collects results of requests until they are taken; bounded while they are not."""

    def __init__(self) -> None:
        self.is_waiting = asyncio.Event()
        """Set while there is anything to report."""
        self._outcomes: dict[str, ProxyOutcome] = {}
        self._rests: OrderedDict[Pair, ProxyRest] = OrderedDict()
        self._answers: OrderedDict[Pair, None] = OrderedDict()
        self._uses: OrderedDict[Pair, ProxyUse] = OrderedDict()
        self.spends: dict[str, PoolSpend] = {}
        """Spend of each pool."""
        self.watched: Sequence[str] = ()
        """Pools of which the cluster's sums are asked for."""
        self._used_at = -USER_FOR_S

    @property
    def is_user(self) -> bool:
        """Return whether this process uses proxies, lately."""
        return time.monotonic() - self._used_at < USER_FOR_S

    def used(self) -> None:
        """A request leaves through a proxy."""
        if not self.is_user:
            self.is_waiting.set()
        self._used_at = time.monotonic()

    def failed(self, proxy: str, *, at_once: bool) -> None:
        """It has failed, surely."""
        outcome = self._of(proxy)
        outcome.failed += 1
        outcome.in_row += 1
        outcome.is_sure |= at_once

    def came_through(self, proxy: str, site: str, *, ms: float, is_refusal: bool) -> None:
        """A site has answered through it."""
        outcome = self._of(proxy)
        outcome.answers += 1
        outcome.refused += is_refusal
        outcome.total_ms += ms
        outcome.in_row, outcome.is_sure = 0, False
        outcome.lost.clear()
        if site in outcome.through:
            outcome.through.remove(site)
        outcome.through.append(site)
        del outcome.through[:-_SITES]

    def answered(self, proxy: str, site: str) -> None:
        """Note that a site answered through a proxy after one had failed to reach it."""
        self._rests.pop((proxy, site), None)
        _put(self._answers, (proxy, site), None)
        self.is_waiting.set()

    def rest(self, rest: ProxyRest) -> None:
        """It leaves a site alone."""
        self._answers.pop((rest.proxy, rest.site), None)
        _put(self._rests, (rest.proxy, rest.site), rest)
        self.is_waiting.set()

    def lost(self, proxy: str, site: str) -> None:
        """It found no way to a site."""
        outcome = self._of(proxy)
        outcome.path += 1
        if site not in outcome.lost and len(outcome.lost) < _LOST:
            outcome.lost.append(site)

    def use(self, use: ProxyUse) -> None:
        """Count requests to a site through a proxy."""
        before = self._uses.get((use.proxy, use.site))
        requests = use.requests + (before.requests if before else 0)
        _put(self._uses, (use.proxy, use.site), replace(use, requests=requests))
        self.is_waiting.set()

    def spend(self, pool: str, *, requests: int = 0, size: int = 0) -> None:
        """A pool has used up so much."""
        before = self.spends.get(pool, PoolSpend())
        self.spends[pool] = PoolSpend(before.requests + requests, before.bytes + size)
        self.is_waiting.set()

    def take(self) -> ProxyReport:
        """Return the next report; the rest stays."""
        rests = [rest for _, rest in _take(self._rests)]
        answers = [pair for pair, _ in _take(self._answers)]
        uses = [use for _, use in _take(self._uses)]
        spends = {**dict.fromkeys(self.watched, PoolSpend()), **self.spends}
        outcomes = dict(islice(self._outcomes.items(), MOST_AT_ONCE))
        report = ProxyReport(
            outcomes=outcomes, rests=rests, answers=answers, uses=uses, spends=spends
        )
        for told in outcomes:
            del self._outcomes[told]
        self.spends = {}
        if not (self._outcomes or self._rests or self._answers or self._uses):
            self.is_waiting.clear()
        return report

    def _of(self, proxy: str) -> ProxyOutcome:
        self.is_waiting.set()
        return self._outcomes.setdefault(proxy, ProxyOutcome())


def _put(among: OrderedDict[Pair, _What], pair: Pair, what: _What) -> None:
    among[pair] = what
    among.move_to_end(pair)
    if len(among) > _MOST_KEPT:
        among.popitem(last=False)


def _take(among: OrderedDict[Pair, _What]) -> list[tuple[Pair, _What]]:
    return [among.popitem(last=False) for _ in range(min(len(among), MOST_AT_ONCE))]
