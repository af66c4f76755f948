"""Proxy pools as people and programs are shown them: passwords are dots."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from crawlstream.model.egress.pools import Pool, PoolTable, Proxy

_NAMES = {"rest_s": "rest"}
"""Fields that are called otherwise in ZooKeeper."""


def pool_table(table: PoolTable) -> dict[str, Any]:
    """All pools, and what they are for."""
    return {
        "default": table.default,
        "groups": dict(table.groups),
        "domains": dict(table.domains),
        "pools": {name: pool_shown(pool) for name, pool in table.pools.items()},
        "czxid": table.czxid,
        "mzxid": table.mzxid,
    }


def pool_shown(pool: Pool) -> dict[str, Any]:
    """One pool: its policy by the names in ZooKeeper, and its proxies."""
    policy = {
        _NAMES.get(field.name, field.name): getattr(pool, field.name)
        for field in fields(pool)
        if field.name not in {"name", "proxies"}
    }
    return {**policy, "proxies": [_proxy(proxy) for proxy in pool.proxies]}


def _proxy(proxy: Proxy) -> dict[str, Any]:
    return {
        "id": proxy.id,
        "url": proxy.shown,
        "weight": proxy.weight,
        "labels": list(proxy.labels),
        "disabled": proxy.disabled,
    }
