"""The way of each page: direct, or through which proxy; and what is learnt of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

import structlog

from crawling.egress.blame import Blame
from crawling.egress.known_pools import KnownPools
from crawling.egress.limits import PoolLimits
from crawling.egress.local_book import FIRST_REST_S, LocalBook
from crawling.egress.patience import Patience
from crawling.egress.proxy_choice import Choice, earliest_ms
from crawling.egress.route import Route
from crawling.egress.shared_book import SharedBook
from crawling.lease.expired import GrantExpired
from crawling.metrics import ADDRESSES_REFUSED, PROXY_BYTES, PROXY_CONNECT_SECONDS, PROXY_REQUESTS
from crawling.page.page import Page
from crawlstream.boot.addresses import AddressRefused
from crawlstream.errors import RedisUnavailable
from crawlstream.model.egress.pools import DIRECT, Pool, PoolTable
from crawlstream.model.statuses import ROUTE_REFUSALS
from crawlstream.model.url import canonical_host
from crawlstream.stats.proxies import FAMILY
from crawlstream_frontier.egress.proxy_book import BookSession
from crawlstream_frontier.egress.proxy_pools import ProxyPools

MOST_TRIES: Final = 3
"""Proxies that are tried for a page under one grant."""
TRY_AGAIN_MS = 1_000
"""Pause of a page whose proxies have all failed just now."""
LONGEST_WAIT_MS = 30_000
"""Longest pause of a page without a fit proxy before it is tried again."""
FULL_MS = 250
"""Pause of a page whose proxies all have their most requests in flight."""

TOLD_EVERY_S = 30.0
"""Seconds between two log lines that a pool has no proxy for pages."""

_OUTCOMES = {
    Blame.PROXY: "proxy",
    Blame.PASSWORD: "password",
    Blame.DENIED: "denied",
    Blame.PATH: "path",
    Blame.TLS: "tls",
    Blame.SITE: "broken",
}

log = structlog.get_logger()


class Count(Protocol):
    """Adds to a counter of a family; see ``Tally.count``."""

    def __call__(self, family: str, *path: str, by: int = 1) -> None:
        """Add."""
        ...


def count_nothing(family: str, *path: str, by: int = 1) -> None:
    """Count nothing: the default without metrics."""


class NoProxy(GrantExpired):
    """No proxy of its pool will do for the page now; it is given back, and waits."""

    reason = "no_proxy"

    def __init__(self, why: str, delay_ms: int) -> None:
        super().__init__(why)
        self.delay_ms = delay_ms


class NoPlace(NoProxy):
    """All fit proxies are busy; one will be free in a moment."""


class Routes:
    """Chooses for the pages of one process."""

    def __init__(
        self,
        pools: ProxyPools,
        patience: Patience,
        session: BookSession,
        *,
        group: str,
        environment: Mapping[str, str] = os.environ,
        count: Count = count_nothing,
    ) -> None:
        """``group`` is the egress group of this process; ``count`` keeps traffic by pool."""
        self.patience = patience
        self.book = LocalBook()
        self.known = KnownPools(pools, self._renew)
        self.shared = SharedBook(session, self.book, is_needed=self._has_pools)
        self.limits = PoolLimits(self.book, self.shared)
        self.choice = Choice(self.book, self.limits, environment)
        self._group = group
        self._count = count
        self._places: frozenset[tuple[str, int]] = frozenset()
        self._told_at: dict[str, float] = {}
        self._is_plain = False

    def _renew(self, table: PoolTable) -> None:
        proxies = [proxy for pool in table.pools.values() for proxy in pool.proxies]
        self._is_plain = table.is_plain
        self.choice.renew()
        self.limits.renew(table)
        self._places = frozenset((canonical_host(proxy.host), proxy.port) for proxy in proxies)
        self.book.keep(frozenset(proxy.id for proxy in proxies))
        log.info("proxies", outcome="known", pools=len(table.pools), proxies=len(proxies))

    def _has_pools(self) -> bool:
        return self.known.table is not None and not self.known.table.is_needless

    def are_needless(self, page: Page) -> bool:
        """Return whether a page leaves directly, as the cluster has no pools and no word of any."""
        return self._is_plain and page.lease.profile.proxy is None

    def is_proxied(self, page: Page, host: str) -> bool:
        """Return whether a page is for a pool, as far as is known."""
        return self._pool_name(page, host) != DIRECT

    def _pool_name(self, page: Page, host: str) -> str:
        named = page.lease.profile.proxy
        if self.known.table is None:
            return named or DIRECT
        return self.known.table.pool_for(host, named=named, group=self._group)

    async def pool_for(self, page: Page, host: str, port: int) -> Pool | None:
        """Return the pool of a page; None: it leaves directly.

        NoProxy: the pool is missing, paused by the operator, or not known yet.
        AddressRefused: the target is a proxy.
        """
        if self.known.table is None:
            try:
                await self.known.look()
            except RedisUnavailable as error:
                raise NoProxy("the pools are not known yet", TRY_AGAIN_MS) from error
        name = self._pool_name(page, host)
        self.refuse_proxies(host, port)
        if name == DIRECT:
            return None
        pool = self.known.table.pools.get(name) if self.known.table else None
        if pool is None or pool.disabled:
            raise self._none(name, "it is disabled" if pool else "there is no such pool")
        return pool

    def refuse_proxies(self, host: str, port: int) -> None:
        """Raise AddressRefused if the target is one of the cluster's own proxies."""
        if (canonical_host(host), port) in self._places:
            ADDRESSES_REFUSED.labels("proxy").inc()
            raise AddressRefused(f"{host}:{port} is a proxy", "proxy")

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
                if route := self.choice.choose(each, page, tried):
                    tried.add(route.proxy.id)
                    yield route
                    break
                if self.choice.is_full(each, page):
                    PROXY_REQUESTS.labels(each.name, "busy").inc()
                    raise NoPlace(f"pool {each.name}: all proxies are busy", FULL_MS)
            else:
                break
        if tried:
            raise self._none(pool.name, f"{len(tried)} proxies have failed", TRY_AGAIN_MS)
        wait_ms = earliest_ms(self.choice, [each for each in pools if each], page)
        delay_ms = int(min(max(wait_ms, TRY_AGAIN_MS), LONGEST_WAIT_MS))
        raise self._none(pool.name, "no proxy is fit", delay_ms)

    def _fallbacks(self, pool: Pool) -> Iterator[Pool | None]:
        assert self.known.table is not None
        for name in pool.fallback:
            if name == DIRECT:
                yield None
            elif (other := self.known.table.pools.get(name)) and not other.disabled:
                yield other

    def _none(self, pool: str, why: str, delay_ms: int = LONGEST_WAIT_MS) -> NoProxy:
        now, table = time.monotonic(), self.known.table
        if table is None or pool not in table.pools:
            pool, why = "(unknown)", f"{pool}: {why}"
        if now - self._told_at.get(pool, -TOLD_EVERY_S) >= TOLD_EVERY_S:
            self._told_at[pool] = now
            log.warning("proxies", outcome="no_proxy", pool=pool, reason=why)
        PROXY_REQUESTS.labels(pool, "none").inc()
        return NoProxy(f"pool {pool}: {why}", delay_ms)

    @contextmanager
    def using(self, route: Route, page: Page) -> Iterator[None]:
        """Count a request as in flight through a proxy."""
        self.book.notes.used()
        self.limits.used(route.pool, route.proxy, page.lease.domain)
        self.book.busy[route.proxy.id] += 1
        try:
            yield
        finally:
            self.book.busy[route.proxy.id] -= 1

    def weighed(
        self, route: Route, sent: int, received: int, *, connect_s: float | None = None
    ) -> None:
        """Record the bytes through a proxy, and the connect time if the connection is new."""
        pool = route.pool.name
        if connect_s is not None:
            PROXY_CONNECT_SECONDS.labels(pool).observe(connect_s)
        PROXY_BYTES.labels(pool, "sent").inc(sent)
        PROXY_BYTES.labels(pool, "received").inc(received)
        self._count(FAMILY, pool, by=sent + received)
        self.limits.weighed(route.pool, sent + received)

    def failed(self, route: Route, page: Page, blame: Blame) -> bool:
        """A request did not come through; whether its site must be taken for silent."""
        proxy, site = route.proxy.id, page.lease.domain
        PROXY_REQUESTS.labels(route.pool.name, _OUTCOMES[blame]).inc()
        if blame is Blame.PATH:
            most_s = max(route.pool.rest_s, FIRST_REST_S) if self._has_others(route, page) else 0.0
            self.book.found_no_way(proxy, site, most_rest_s=most_s)
            return self.book.is_silent(site, of=self.choice.count_in(route.pool))
        if blame is Blame.DENIED:
            self.book.rest(proxy, site, route.pool.rest_s)
        elif blame is Blame.TLS:
            # Where the pool has another profile, that is tried instead.
            if len(route.pool.tls) == 1 and self._has_others(route, page):
                self.book.rest(proxy, site, FIRST_REST_S)
        elif blame is not Blame.SITE:
            self.book.failed(proxy, at_once=blame is Blame.PASSWORD)
        return False

    def _has_others(self, route: Route, page: Page) -> bool:
        """Return whether a proxy may rest: the last one does not, and retries have pauses."""
        return next(self.choice.fit(route.pool, page, {route.proxy.id}), None) is not None

    def answered(self, route: Route, page: Page, status: int) -> None:
        """The site has answered."""
        page.proxy = route.shown
        self.patience.served(route.pool.name, page.lease.domain)
        is_refusal = status in ROUTE_REFUSALS
        ms = (time.monotonic() - page.left_at) * 1000
        self.book.came_through(route.proxy.id, page.lease.domain, ms=ms, is_refusal=is_refusal)
        if is_refusal:
            self.book.rest(route.proxy.id, page.lease.domain, route.pool.rest_s)
        PROXY_REQUESTS.labels(route.pool.name, "refused" if is_refusal else "ok").inc()
