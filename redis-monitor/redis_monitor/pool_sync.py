"""The proxy pools on their way from ZooKeeper into Redis, where crawlers read them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from crawlstream.egress.edit import PoolEditor
from crawlstream.egress.parse import node_of
from crawlstream.errors import ZooKeeperUnavailable
from crawlstream.model.egress.pools import UNREADABLE, PoolTable
from crawlstream_frontier.egress.proxy_pools import ProxyPools
from redis_monitor.node_watch import NodeWatch
from redis_monitor.table_sync import TableSync

_READ_WITHIN_S = 5.0


class PoolSync(TableSync[PoolTable]):
    """Copies the pools; a node without any is made where there is none."""

    event, what, remedy = "proxies", "proxy pools", "`crawlstream proxies adopt`"

    def __init__(self, pools: ProxyPools, hosts: tuple[str, ...], path: str) -> None:
        super().__init__(partial(_watch, hosts, path))
        self._pools = pools
        self._editor = PoolEditor(hosts, path)

    async def be_first(self) -> None:
        """Return when Redis has pools; ZooKeeperUnavailable while the pools are unknown.

        Without them a page of a pool that all pages use would leave directly. Where the node cannot
        be read, the existence of such a pool is unknown: then all pages wait.
        """
        await self._begin()
        if await self._in_force() is not None:
            return
        try:
            async with asyncio.timeout(_READ_WITHIN_S):
                await self._is_heard_of.wait()
        except TimeoutError as error:
            raise ZooKeeperUnavailable("the proxy pools have not been read yet") from error
        if self._latest is None:
            await self._copy(PoolTable(default=UNREADABLE))
        else:
            await self._copy_latest()

    async def _in_force(self) -> PoolTable | None:
        return await self._pools.table()

    async def _let_rule(self, table: PoolTable) -> bool:
        return await self._pools.copy(table)

    async def _make_node(self) -> None:
        await self._editor.seed()

    def _size(self, table: PoolTable) -> dict[str, Any]:
        return {"pools": len(table.pools)}


def _watch(hosts: tuple[str, ...], path: str, on_table: Any, on_alarm: Any) -> NodeWatch[PoolTable]:
    return NodeWatch(hosts, node_of(path), on_table=on_table, on_alarm=on_alarm)
