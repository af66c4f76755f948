"""The shared book: what the cluster knows of its proxies, told and heard in one operation.

Nothing in it is needed to send safely; what is lost with Redis is learnt anew.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from crawlstream.model.egress.book import (
    BookAnswer,
    PoolSpend,
    ProxyBan,
    ProxyHealth,
    ProxyNews,
    ProxyReport,
)
from crawlstream.model.egress.pools import PoolTable
from crawlstream.model.egress.report import PoolState, states_of
from crawlstream_frontier.codec.book import Caller, pack_report, unpack_answer, unpack_health
from crawlstream_frontier.scripts import Scripts, our_errors

LIVE_MS = 15_000
"""A worker that has used proxies lately counts for so long after each call."""
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
        """Tell what was learnt and hear what others have; the first answer is all there is.

        ``is_user``: whether this worker uses proxies now. RedisUnavailable, FrontierFull: the
        report may have taken effect; the same one may be told again, and nothing counts twice.
        """
        live_ms = LIVE_MS if is_user else 0
        caller = Caller(self._call, self._worker, live_ms, self._since, self._page)
        packed = await self._scripts.run("proxies", pack_report(caller, report))
        self._since, self._page, answer = unpack_answer(packed, list(report.spends))
        self._call += 1
        return answer


class ProxyBook:
    """The book as people and monitors read it; every method: RedisUnavailable."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def session(self, worker: str) -> BookSession:
        """The book for a worker of this name."""
        return BookSession(self._scripts, worker)

    async def ban(self, *bans: ProxyBan) -> None:
        """Let proxies not be used for sites for a while, or be used again."""
        caller = Caller(0, _NO_WORKER, 0, "", -1)
        await self._scripts.run("proxies", pack_report(caller, ProxyReport(bans=bans)))

    async def health(self) -> Mapping[str, ProxyHealth]:
        """Of each proxy that was used, by its id."""
        with our_errors():
            packed = await self._scripts.redis.hgetall(self._scripts.keys.proxy_health())
        return {proxy.decode(): unpack_health(told) for proxy, told in packed.items()}

    async def rests(self) -> Sequence[ProxyNews]:
        """Who is out, rests or is banned now, the last to end first."""
        since, page, found = "", -1, list[ProxyNews]()
        while True:
            caller = Caller(0, _NO_WORKER, 0, since, page)
            packed = await self._scripts.run("proxies", pack_report(caller, ProxyReport()))
            since, page, answer = unpack_answer(packed, ())
            found += answer.news
            if not answer.is_more:
                return found

    async def states(self, table: PoolTable) -> Sequence[PoolState]:
        """All pools of a table and how their proxies do, by name."""
        if table.is_needless:
            return ()
        spent = await self.spent(sorted(table.pools))
        return states_of(table, await self.health(), await self.rests(), spent)

    async def spent(self, pools: Sequence[str]) -> Mapping[str, PoolSpend]:
        """Requests and bytes of these pools on this day, in UTC."""
        key = self._scripts.keys.proxy_spent(str(int(time.time() / _DAY_S)))
        fields = [f"{pool} {what}" for pool in pools for what in ("requests", "bytes")]
        if not fields:
            return {}
        with our_errors():
            found = [int(each or 0) for each in await self._scripts.redis.hmget(key, fields)]
        sums = zip(found[::2], found[1::2], strict=True)
        return {pool: PoolSpend(*each) for pool, each in zip(pools, sums, strict=True)}
