"""Proxy pools as they are stored in Redis; only Python reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import msgpack  # type: ignore[import-untyped]

from crawlstream.model.egress.pools import Pool, PoolTable, Proxy, Secret
from crawlstream_frontier.codec.values import pack


def pack_pools(table: PoolTable) -> bytes:
    """Pack a table with its secrets as they were written: variables are not replaced."""
    pools = [
        {**_told(pool), "proxies": [_told(proxy) for proxy in pool.proxies]}
        for pool in table.pools.values()
    ]
    return pack({**_told(table), "pools": pools})


def unpack_pools(blob: bytes) -> PoolTable:
    """Return the table that ``pack_pools`` has packed."""
    told = msgpack.unpackb(blob, raw=False, use_list=False)
    pools = [
        Pool(**{**pool, "proxies": tuple(map(_proxy, pool["proxies"]))}) for pool in told["pools"]
    ]
    return PoolTable(**{**told, "pools": {pool.name: pool for pool in pools}})


def _proxy(told: Mapping[str, Any]) -> Proxy:
    return Proxy(**{**told, "password": Secret(told.get("password", ""))})


def _told(value: Any) -> dict[str, Any]:
    """Return the fields that differ from their default."""
    found = {
        field.name: (getattr(value, field.name), field) for field in fields(value) if field.init
    }
    return {
        name: each.reveal() if isinstance(each, Secret) else each
        for name, (each, field) in found.items()
        if field.default is MISSING or each != field.default
    }
