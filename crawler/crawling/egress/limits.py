"""How much of a proxy and of a pool this process may use: its share, as the cluster counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from zlib import crc32

from crawling.egress.local_book import LocalBook
from crawling.egress.shared_book import SharedBook
from crawlstream.model.egress.pools import Pool, PoolTable, Proxy
from crawlstream_frontier.proxy_reports import PoolSpend, ProxyUse

_DAY_S = 86_400
_MOST_COUNTED = 20_000


class PoolLimits:
    """``concurrency``, ``uses`` and ``budget`` of pools; exact except for requests in flight."""

    def __init__(
        self, book: LocalBook, shared: SharedBook, *, now: Callable[[], float] = time.time
    ) -> None:
        self._book = book
        self._shared = shared
        self._now = now
        self._uses: Counter[tuple[str, str]] = Counter()

    def renew(self, table: PoolTable) -> None:
        """Go by another table: the cluster's sums of these pools are asked for."""
        self._book.notes.watched = tuple(
            pool.name for pool in table.pools.values() if pool.is_counted
        )

    def has_place(self, pool: Pool, proxy: Proxy) -> bool:
        """Return whether one more request may go through a proxy now."""
        if not pool.concurrency:
            return True
        book, share = self._book, pool.concurrency
        if book.workers > 1:
            share = share_of(share, proxy.id, book.workers, book.place)
        return book.busy[proxy.id] < share

    def is_spent(self, pool: Pool) -> bool:
        """Return whether the budget of a pool is used up, until the next day in UTC."""
        if not (pool.budget_requests or pool.budget_bytes):
            return False
        spent = self.spent(pool.name)
        return (0 < pool.budget_requests <= spent.requests) or (
            0 < pool.budget_bytes <= spent.bytes
        )

    def spent(self, pool: str) -> PoolSpend:
        """Return the known spend of a pool today."""
        answer, nothing = self._shared.latest, PoolSpend()
        kept = self._book.notes.spends.get(pool, nothing)
        asked = self._shared.untold.spends.get(pool, nothing)
        is_today = answer.day == int(self._now() // _DAY_S)
        told = answer.spent.get(pool, nothing) if is_today else nothing
        return PoolSpend(
            told.requests + kept.requests + asked.requests, told.bytes + kept.bytes + asked.bytes
        )

    def used(self, pool: Pool, proxy: Proxy, site: str) -> None:
        """A request to a site is to leave through a proxy."""
        if pool.is_counted:
            self._book.notes.spend(pool.name, requests=1)
        if not pool.uses:
            return
        self._book.notes.use(ProxyUse(proxy.id, site, 1, pool.uses, int(pool.rest_s * 1000)))
        pair = (proxy.id, site)
        if pair not in self._uses and len(self._uses) >= _MOST_COUNTED:
            self._uses.clear()
        self._uses[pair] += 1
        if self._uses[pair] >= pool.uses:
            del self._uses[pair]
            self._book.rest(proxy.id, site, pool.rest_s)

    def weighed(self, pool: Pool, size: int) -> None:
        """Add the bytes of a request and its response."""
        if pool.is_counted:
            self._book.notes.spend(pool.name, size=size)


def share_of(concurrency: int, proxy: str, workers: int, place: int) -> int:
    """Return how many of the requests that a proxy may have at once are one worker's.

    Those of all workers together are ``concurrency``; who has one more is another for each proxy.
    """
    count = max(workers, 1)
    turn = (crc32(proxy.encode()) - place) % count
    return concurrency // count + (turn < concurrency % count)
