"""Proxy pools as shown to people and programs: passwords are dots."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from crawlstream.model.egress.pools import Pool, PoolTable, Proxy

_NAMES = {"rest_s": "rest"}
"""Fields that have other names in ZooKeeper."""
_GROUPED = frozenset({"budget_requests", "budget_gb", "price_per_gb"})
"""Fields that are nested in other fields in ZooKeeper."""


def pool_table(table: PoolTable) -> dict[str, Any]:
    """Return all pools and their assignments."""
    return {
        "default": table.default,
        "groups": dict(table.groups),
        "domains": dict(table.domains),
        "pools": {name: pool_shown(pool) for name, pool in table.pools.items()},
        "czxid": table.czxid,
        "mzxid": table.mzxid,
    }


def pool_shown(pool: Pool) -> dict[str, Any]:
    """Return a pool: its policy by the names in ZooKeeper, and its proxies."""
    policy = {
        _NAMES.get(field.name, field.name): getattr(pool, field.name)
        for field in fields(pool)
        if field.name not in {"name", "proxies"} | _GROUPED
    }
    policy["budget"] = {"requests": pool.budget_requests, "gigabytes": pool.budget_gb}
    policy["price"] = {"per_gb": pool.price_per_gb}
    return {**policy, "proxies": [_proxy(proxy) for proxy in pool.proxies]}


def _proxy(proxy: Proxy) -> dict[str, Any]:
    return {
        "id": proxy.id,
        "url": proxy.shown,
        "weight": proxy.weight,
        "labels": list(proxy.labels),
        "disabled": proxy.disabled,
    }
