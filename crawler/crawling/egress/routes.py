"""The way of each page: direct, or through which proxy; and what is learnt of it."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from crawling.egress.blame import Blame
from crawling.egress.book import FIRST_REST_S, Book
from crawling.egress.known_pools import KnownPools
from crawling.egress.patience import Patience
from crawling.egress.ranking import Ranking, ranked
from crawling.lease.holds import GrantExpired
from crawling.metrics import ADDRESSES_REFUSED, PROXY_REQUESTS
from crawling.page.page import Page
from crawlstream.boot.addresses import AddressRefused
from crawlstream.errors import RedisUnavailable
from crawlstream.frontier.egress.pools import ProxyPools
from crawlstream.model.egress.pools import DIRECT, Pool, PoolTable, Proxy, Secret

MOST_TRIES: Final = 3
"""Proxies that are tried for a page under one grant."""
TRY_AGAIN_MS = 1_000
"""Pause of a page whose proxies have all failed just now."""
LONGEST_WAIT_MS = 30_000
"""A page that no proxy will do for is looked at again after so long at the latest."""
PANIC_EVERY_S = 30.0
"""A pool that has nobody tries its best proxy so often, whatever is known of it."""

_REFUSALS = frozenset({403, 407, 429, 503})
"""Statuses after which a proxy leaves the site alone for a while; nothing is asked again for them
from elsewhere."""
_OUTCOMES = {
    Blame.PROXY: "proxy",
    Blame.PASSWORD: "proxy",
    Blame.DENIED: "denied",
    Blame.PATH: "path",
    Blame.TLS: "tls",
    Blame.SITE: "broken",
}

log = structlog.get_logger()


class NoProxy(GrantExpired):
    """No proxy of its pool will do for the page now; it is given back, and waits."""

    reason = "no_proxy"

    def __init__(self, why: str, delay_ms: int) -> None:
        super().__init__(why)
        self.delay_ms = delay_ms


@dataclass(frozen=True, slots=True)
class Route:
    """A proxy, and the pool whose policy it is used under."""

    pool: Pool
    proxy: Proxy
    credentials: tuple[str, Secret] | None
    """User name and password with their variables filled in."""

    @property
    def shown(self) -> Mapping[str, str]:
        """What a result says of it."""
        return {"pool": self.pool.name, "id": self.proxy.id}


class Routes:
    """Chooses for the pages of one process."""

    def __init__(
        self,
        pools: ProxyPools,
        patience: Patience,
        *,
        group: str,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """``group`` is the egress group of this process."""
        self.patience = patience
        self.book = Book()
        self.known = KnownPools(pools, self._renew)
        self._group = group
        self._environment = environment
        self._ranking = Ranking()
        self._places: frozenset[tuple[str, int]] = frozenset()
        self._panicked_at: dict[str, float] = {}
        self._told_at: dict[str, float] = {}

    def _renew(self, table: PoolTable) -> None:
        proxies = [proxy for pool in table.pools.values() for proxy in pool.proxies]
        self._ranking = Ranking()
        self._places = frozenset((proxy.host, proxy.port) for proxy in proxies)
        self.book.keep(frozenset(proxy.id for proxy in proxies))
        log.info("proxies", outcome="known", pools=len(table.pools), proxies=len(proxies))

    def is_proxied(self, page: Page, host: str) -> bool:
        """Whether a page is for a pool, as far as is known."""
        return self._pool_name(page, host) != DIRECT

    def _pool_name(self, page: Page, host: str) -> str:
        named = page.hold.profile.proxy
        if self.known.table is None:
            return named or DIRECT
        return self.known.table.pool_for(host, named=named, group=self._group)

    async def pool_for(self, page: Page, host: str, port: int) -> Pool | None:
        """The pool of a page; None: it leaves directly.

        NoProxy: there is no such pool, or a person holds it back; or nobody knows yet.
        AddressRefused: what is asked for is a proxy.
        """
        if self.known.table is None:
            try:
                await self.known.look()
            except RedisUnavailable as error:
                raise NoProxy("the pools are not known yet", TRY_AGAIN_MS) from error
        name = self._pool_name(page, host)
        if (host, port) in self._places:
            ADDRESSES_REFUSED.labels("proxy").inc()
            raise AddressRefused(f"{host}:{port} is a proxy", "proxy")
        if name == DIRECT:
            return None
        pool = self.known.table.pools.get(name) if self.known.table else None
        if pool is None or pool.disabled:
            raise self._none(name, "it is disabled" if pool else "there is no such pool")
        return pool

    def choices(self, pool: Pool, page: Page) -> Iterator[Route | None]:
        """Proxies to try, one after the other; None: directly, where a fallback says so.

        NoProxy where there is none, or no other.
        """
        tried: set[str] = set()
        pools = [pool, *self._fallbacks(pool)]
        for _ in range(MOST_TRIES):
            for each in pools:
                if each is None:
                    yield None
                    return
                if route := self._choose(each, page, tried):
                    tried.add(route.proxy.id)
                    yield route
                    break
            else:
                break
        if tried:
            raise self._none(pool.name, f"{len(tried)} proxies have failed", TRY_AGAIN_MS)
        raise self._none(pool.name, "no proxy is fit", self._wait_ms(pools, page))

    def _fallbacks(self, pool: Pool) -> Iterator[Pool | None]:
        assert self.known.table is not None
        for name in pool.fallback:
            if name == DIRECT:
                yield None
            elif (other := self.known.table.pools.get(name)) and not other.disabled:
                yield other

    def _choose(self, pool: Pool, page: Page, tried: set[str]) -> Route | None:
        """The less busy of two of the first that are fit for a site."""
        fit = list(self._fit(pool, page, tried))
        if not fit and not tried and (last := self._last_resort(pool, page)):
            fit = [last]
        if not fit:
            return None
        two = random.sample(fit, min(2, len(fit)))
        proxy = min(two, key=lambda each: self.book.busy[each.id])
        try:
            return Route(pool, proxy, proxy.credentials(self._environment))
        except KeyError as error:
            missing = error.args[0]
        log.error("proxies", id=proxy.id, error=f"the environment variable {missing} is not set")
        self.book.failed(proxy.id, at_once=True)
        return self._choose(pool, page, tried | {proxy.id})

    def _fit(self, pool: Pool, page: Page, tried: set[str]) -> Iterator[Proxy]:
        """The first ``spread`` that may be asked."""
        left = pool.spread
        for proxy in self._ordered(pool, page):
            if proxy.id not in tried and self.book.is_fit(proxy.id, page.hold.domain):
                yield proxy
                left -= 1
                if not left:
                    return

    def _ordered(self, pool: Pool, page: Page) -> Iterator[Proxy]:
        """All proxies of a pool that a person lets be used, best first."""
        key = _key(pool, page)
        enabled = [proxy for proxy in pool.proxies if not proxy.disabled]
        best = self._ranking.best(pool.name, enabled, key)
        yield from best
        if len(best) < len(enabled):
            yield from ranked(enabled, key)[len(best) :]

    def _last_resort(self, pool: Pool, page: Page) -> Proxy | None:
        """One that is out, now and then: so that a pool is back soon after its proxies are."""
        now = time.monotonic()
        if now - self._panicked_at.get(pool.name, -PANIC_EVERY_S) < PANIC_EVERY_S:
            return None
        out = (
            proxy
            for proxy in self._ordered(pool, page)
            if self.book.out_until(proxy.id) > now
            and not self.book.rests(proxy.id, page.hold.domain)
        )
        if found := next(out, None):
            self._panicked_at[pool.name] = now
        return found

    def _wait_ms(self, pools: Sequence[Pool | None], page: Page) -> int:
        """Until the first one could be fit, as far as is known."""
        ats = [
            self.book.fit_at(proxy.id, page.hold.domain)
            for pool in pools
            if pool
            for proxy in self._ordered(pool, page)
        ]
        wait_ms = (min(ats, default=1e12) - time.monotonic()) * 1000
        return int(min(max(wait_ms, TRY_AGAIN_MS), LONGEST_WAIT_MS))

    def _none(self, pool: str, why: str, delay_ms: int = LONGEST_WAIT_MS) -> NoProxy:
        now, table = time.monotonic(), self.known.table
        if table is None or pool not in table.pools:
            pool, why = "(unknown)", f"{pool}: {why}"
        if now - self._told_at.get(pool, -PANIC_EVERY_S) >= PANIC_EVERY_S:
            self._told_at[pool] = now
            log.warning("proxies", outcome="no_proxy", pool=pool, reason=why)
        PROXY_REQUESTS.labels(pool, "none").inc()
        return NoProxy(f"pool {pool}: {why}", delay_ms)

    @contextmanager
    def using(self, route: Route) -> Iterator[None]:
        """A request is under way through a proxy."""
        self.book.busy[route.proxy.id] += 1
        try:
            yield
        finally:
            self.book.busy[route.proxy.id] -= 1

    def failed(self, route: Route, page: Page, blame: Blame) -> bool:
        """A request did not come through; whether its site must be taken for silent."""
        proxy, site = route.proxy.id, page.hold.domain
        PROXY_REQUESTS.labels(route.pool.name, _OUTCOMES[blame]).inc()
        if blame is Blame.PATH:
            # The last one does not rest: there is none to take instead, and retries have pauses.
            others = self._fit(route.pool, page, {proxy})
            most_s = max(route.pool.rest_s, FIRST_REST_S) if next(others, None) else 0.0
            self.book.found_no_way(proxy, site, most_rest_s=most_s)
            return self.book.is_silent(site, of=self._count_in(route.pool))
        if blame is Blame.DENIED:
            self.book.rest(proxy, site, route.pool.rest_s)
        elif blame is Blame.TLS:
            self.book.rest(proxy, site, FIRST_REST_S)
        elif blame is not Blame.SITE:
            self.book.failed(proxy, at_once=blame is Blame.PASSWORD)
        return False

    def answered(self, route: Route, page: Page, status: int) -> None:
        """The site has answered."""
        page.proxy = route.shown
        self.patience.served(route.pool.name, page.hold.domain)
        self.book.came_through(route.proxy.id, page.hold.domain)
        is_refusal = status in _REFUSALS
        if is_refusal:
            self.book.rest(route.proxy.id, page.hold.domain, route.pool.rest_s)
        PROXY_REQUESTS.labels(route.pool.name, "refused" if is_refusal else "ok").inc()

    def _count_in(self, pool: Pool) -> int:
        """Proxies of a pool that are not out, whether or not they rest for a site."""
        now = time.monotonic()
        return sum(
            not proxy.disabled and self.book.out_until(proxy.id) <= now for proxy in pool.proxies
        )


def _key(pool: Pool, page: Page) -> str:
    if pool.per == "site":
        return page.hold.domain
    crawl = page.hold.crawl
    return f"{page.hold.domain} {crawl.spiderid} {crawl.appid} {crawl.crawlid}"
