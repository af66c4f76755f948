"""The proxy pools as this process knows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from crawlstream.errors import RedisUnavailable
from crawlstream.model.egress.pools import PoolTable
from crawlstream_frontier.egress.proxy_pools import ProxyPools

LOOK_EVERY_S = 1.0

log = structlog.get_logger()


class KnownPools:
    """Follows the table in Redis; the last one stays where that has none any more."""

    def __init__(self, pools: ProxyPools, on_table: Callable[[PoolTable], None]) -> None:
        self._pools = pools
        self._on_table = on_table
        self.table: PoolTable | None = None
        """None: there never was one. Where rules of politeness are copied, pools were before."""

    async def look(self) -> None:
        """Take over what the cluster goes by now; RedisUnavailable."""
        table = await self._pools.table(self.table)
        if table is not None and table is not self.table:
            self.table = table
            self._on_table(table)

    async def follow(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.look()
            except RedisUnavailable as error:
                log.warning("proxies", outcome="no_answer", error=str(error))
