"""The shared book: the cluster's experience with its proxies, written and read in one operation.

Safe sending does not depend on it; if Redis loses it, workers learn it again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from crawlstream.model.egress.pools import PoolTable
from crawlstream_frontier.codec.proxy_book import Caller, pack_report, unpack_answer, unpack_health
from crawlstream_frontier.egress.proxy_states import PoolState, states_of
from crawlstream_frontier.proxy_reports import (
    BookAnswer,
    PoolSpend,
    ProxyBan,
    ProxyHealth,
    ProxyNews,
    ProxyReport,
)
from crawlstream_frontier.scripts import Scripts, our_errors

LIVE_MS = 15_000
"""Time after each call for which a worker counts as a user of proxies."""
_NO_WORKER = ""
_DAY_S = 86_400


class BookSession:
    """The book as one worker uses it; one call at a time."""

    def __init__(self, scripts: Scripts, worker: str) -> None:
        self._scripts = scripts
        self._worker = worker
        self._call = 1
        self._since, self._page = "", -1

    async def exchange(self, report: ProxyReport, *, is_user: bool) -> BookAnswer:
        """Report experience and return that of others; the first answer is the whole book.

        ``is_user``: whether this worker uses proxies now. RedisUnavailable, FrontierFull: the
        report may have taken effect; it may be sent again, and nothing counts twice.
        """
        live_ms = LIVE_MS if is_user else 0
        caller = Caller(self._call, self._worker, live_ms, self._since, self._page)
        packed = await self._scripts.run("proxies", pack_report(caller, report))
        self._since, self._page, answer = unpack_answer(packed, list(report.spends))
        self._call += 1
        return answer


class ProxyBook:
    """The book for operators and monitors; every method: RedisUnavailable."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def session(self, worker: str) -> BookSession:
        """Return the session of a worker of this name."""
        return BookSession(self._scripts, worker)

    async def ban(self, *bans: ProxyBan) -> None:
        """Ban proxies from sites for a while, or lift the ban."""
        caller = Caller(0, _NO_WORKER, 0, "", -1)
        await self._scripts.run("proxies", pack_report(caller, ProxyReport(bans=bans)))

    async def health(self) -> Mapping[str, ProxyHealth]:
        """Return the health of each used proxy, by its id."""
        with our_errors():
            packed = await self._scripts.redis.hgetall(self._scripts.keys.proxy_health())
        return {proxy.decode(): unpack_health(told) for proxy, told in packed.items()}

    async def rests(self) -> Sequence[ProxyNews]:
        """Return the proxies that are out, rest or are banned now, the last to end first."""
        since, page, found = "", -1, list[ProxyNews]()
        while True:
            caller = Caller(0, _NO_WORKER, 0, since, page)
            packed = await self._scripts.run("proxies", pack_report(caller, ProxyReport()))
            since, page, answer = unpack_answer(packed, ())
            found += answer.news
            if not answer.is_more:
                return found

    async def states(self, table: PoolTable) -> Sequence[PoolState]:
        """Return all pools of a table and the health of their proxies, sorted by pool name."""
        if table.is_needless:
            return ()
        spent = await self.spent(sorted(table.pools))
        return states_of(table, await self.health(), await self.rests(), spent)

    async def spent(self, pools: Sequence[str]) -> Mapping[str, PoolSpend]:
        """Return the requests and bytes of these pools on this day, in UTC."""
        key = self._scripts.keys.proxy_spent(str(int(time.time() / _DAY_S)))
        fields = [f"{pool} {what}" for pool in pools for what in ("requests", "bytes")]
        if not fields:
            return {}
        with our_errors():
            found = [int(each or 0) for each in await self._scripts.redis.hmget(key, fields)]
        sums = zip(found[::2], found[1::2], strict=True)
        return {pool: PoolSpend(*each) for pool, each in zip(pools, sums, strict=True)}
