"""The proxy pools in force: the table that crawlers and kafka-monitors use."""

from __future__ import annotations

from crawlstream.model.egress.pools import PoolTable
from crawlstream_frontier.codec.pools import pack_pools, unpack_pools
from crawlstream_frontier.codec.values import pack
from crawlstream_frontier.scripts import Scripts, our_errors


class ProxyPools:
    """The pools of one frontier, for all readers and for the process that copies them there.

    Every method raises RedisUnavailable when Redis gives no answer; repeating it is safe.
    """

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def table(self, known: PoolTable | None = None) -> PoolTable | None:
        """Return the pools in force; None before the first.

        ``known`` is returned itself if it is still the latest, after one short query.
        """
        key = self._scripts.keys.proxies()
        with our_errors():
            if known is not None:
                version = await self._scripts.redis.hmget(key, "czxid", "mzxid")
                if version == [b"%d" % known.czxid, b"%d" % known.mzxid]:
                    return known
            blob = await self._scripts.redis.hget(key, "table")
        return unpack_pools(blob) if blob else None

    async def copy(self, table: PoolTable, *, adopt: bool = False) -> bool:
        """Put a table in force; False: it is older than the present one, or of another node."""
        version = str(table.czxid), str(table.mzxid)
        forced = "1" if adopt else ""
        ids = pack([proxy.id for pool in table.pools.values() for proxy in pool.proxies])
        return bool(await self._scripts.run("pools", *version, pack_pools(table), forced, ids))
