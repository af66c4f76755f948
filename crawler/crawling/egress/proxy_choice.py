"""Choose the proxy of a page: the less busy of two random fit ones."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence

import structlog

from crawling.egress.limits import PoolLimits
from crawling.egress.local_book import LocalBook
from crawling.egress.ranking import Ranking
from crawling.egress.route import Route
from crawling.page.page import Page
from crawlstream.model.egress.pools import Pool, Proxy
from crawlstream_frontier.egress.proxy_ranking import ranked

PANIC_EVERY_S = 30.0
"""Seconds between tries of the best proxy of a pool that has no fit one, whatever its state."""

log = structlog.get_logger()


class Choice:
    """Chooses by one version of the table of pools."""

    def __init__(self, book: LocalBook, limits: PoolLimits, environment: Mapping[str, str]) -> None:
        self._book = book
        self._limits = limits
        self._environment = environment
        self._ranking = Ranking()
        self._panicked_at: dict[str, float] = {}

    def renew(self) -> None:
        """The table is another one."""
        self._ranking = Ranking()

    def choose(self, pool: Pool, page: Page, tried: set[str]) -> Route | None:
        """Return a fit proxy with a free place; None: there is none now."""
        if self._limits.is_spent(pool):
            return None
        fit = [proxy for proxy in self.fit(pool, page, tried) if self._has_place(pool, proxy)]
        if not fit and not tried and (last := self._last_resort(pool, page)):
            fit = [last]
        if not fit:
            return None
        proxy = self._less_busy(fit)
        try:
            return Route(pool, proxy, proxy.credentials(self._environment))
        except KeyError as error:
            missing = error.args[0]
        log.error("proxies", id=proxy.id, error=f"the environment variable {missing} is not set")
        self._book.failed(proxy.id, at_once=True)
        return self.choose(pool, page, tried | {proxy.id})

    def _less_busy(self, fit: Sequence[Proxy]) -> Proxy:
        """Return the less busy of two random proxies."""
        count, busy = len(fit), self._book.busy
        if count == 1:
            return fit[0]
        one = int(random.random() * count)  # noqa: S311
        other = (one + 1 + int(random.random() * (count - 1))) % count  # noqa: S311
        return min(fit[one], fit[other], key=lambda each: busy[each.id])

    def is_full(self, pool: Pool, page: Page) -> bool:
        """Return whether all that is missing is a place: it is a matter of a moment."""
        if self._limits.is_spent(pool):
            return False
        return any(not self._has_place(pool, proxy) for proxy in self.fit(pool, page, set()))

    def _has_place(self, pool: Pool, proxy: Proxy) -> bool:
        return self._limits.has_place(pool, proxy)

    def fit(self, pool: Pool, page: Page, tried: set[str]) -> Iterator[Proxy]:
        """Yield the first ``spread`` fit proxies, with or without a free place."""
        left = pool.spread
        for proxy in self._ordered(pool, page):
            if proxy.id not in tried and self._book.is_fit(proxy.id, page.lease.domain):
                yield proxy
                left -= 1
                if not left:
                    return

    def fit_at(self, pool: Pool, page: Page) -> float:
        """Return when the first could be fit, as far as is known, in monotonic seconds."""
        if self._limits.is_spent(pool):
            return time.monotonic() + PANIC_EVERY_S
        ats = (
            self._book.fit_at(proxy.id, page.lease.domain) for proxy in self._ordered(pool, page)
        )
        return min(ats, default=1e12)

    def count_in(self, pool: Pool) -> int:
        """Proxies of a pool that are not out, whether or not they rest for a site."""
        now = time.monotonic()
        return sum(
            not proxy.disabled and self._book.out_until(proxy.id) <= now for proxy in pool.proxies
        )

    def _ordered(self, pool: Pool, page: Page) -> Iterator[Proxy]:
        """All proxies of a pool that a person lets be used, best first."""
        key = _key(pool, page)
        best, enabled = self._ranking.best(pool, key), self._ranking.enabled(pool)
        yield from best
        if len(best) < len(enabled):
            yield from ranked(enabled, key)[len(best) :]

    def _last_resort(self, pool: Pool, page: Page) -> Proxy | None:
        """Return a proxy that is out, now and then: so a recovered pool is soon used again."""
        now = time.monotonic()
        if now - self._panicked_at.get(pool.name, -PANIC_EVERY_S) < PANIC_EVERY_S:
            return None
        out = (
            proxy
            for proxy in self._ordered(pool, page)
            if self._book.out_until(proxy.id) > now
            and not self._book.rests(proxy.id, page.lease.domain)
        )
        if found := next(out, None):
            self._panicked_at[pool.name] = now
        return found


def earliest_ms(choice: Choice, pools: Sequence[Pool], page: Page) -> float:
    """Until the first proxy of any pool could be fit, in ms; it may be past."""
    ats = (choice.fit_at(pool, page) for pool in pools)
    return (min(ats, default=1e12) - time.monotonic()) * 1000


def _key(pool: Pool, page: Page) -> str:
    if pool.per == "site":
        return page.lease.domain
    crawl = page.lease.crawl
    return f"{page.lease.domain} {crawl.spiderid} {crawl.appid} {crawl.crawlid}"
