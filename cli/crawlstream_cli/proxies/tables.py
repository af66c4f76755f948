"""Pools and proxies as tables for people, or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from rich.table import Table

from crawlstream.egress.edit import DEFAULT
from crawlstream.errors import ConfigError
from crawlstream.model.egress.pools import DIRECT, Pool, PoolTable
from crawlstream.model.words.quantities import duration
from crawlstream_cli.common.console import print_line, stdout_console
from crawlstream_cli.proxies.shown import pool_shown, pool_table
from crawlstream_frontier.egress.proxy_states import PoolState, ProxyState, pool_json

_MOST_RESTS = 3


def pool_of(table: PoolTable, name: str) -> Pool:
    """Return a pool; ConfigError if there is none of that name."""
    pool = table.pools.get(name)
    if pool is None:
        known = ", ".join(sorted(table.pools)) or "none"
        raise ConfigError(f"there is no pool {name!r}; the pools are: {known}")
    return pool


def show_table(table: PoolTable, *, as_json: bool) -> None:
    """All pools, and what they are for."""
    if as_json:
        print_line(orjson.dumps(pool_table(table)).decode())
        return
    shown = Table("pool", "proxies", "used by", "", box=None)
    for name in (DIRECT, *sorted(table.pools)):
        pool = table.pools.get(name)
        users = [DEFAULT] if table.default == name else []
        users += [domain for domain, used in sorted(table.domains.items()) if used == name]
        users += [f"group {group}" for group, used in sorted(table.groups.items()) if used == name]
        state = "disabled" if pool and pool.disabled else ""
        shown.add_row(name, str(len(pool.proxies)) if pool else "", _some(users), state)
    stdout_console().print(shown)


def _some(users: Sequence[str]) -> str:
    more = f" and {len(users) - 5} more" if len(users) > 5 else ""
    return ", ".join(users[:5]) + more


def show_pool(table: PoolTable, name: str, *, as_json: bool) -> None:
    """Show a pool and its proxies."""
    pool = pool_of(table, name)
    told = pool_shown(pool)
    if as_json:
        print_line(orjson.dumps({"pool": name, **told}).decode())
        return
    for field, value in told.items():
        if field != "proxies":
            print_line(f"{field:<11} {_plain(value)}")
    shown = Table("id", "proxy", "weight", "labels", "", box=None)
    for proxy in told["proxies"]:
        state = "disabled" if proxy["disabled"] else ""
        labels, weight = ", ".join(proxy["labels"]), f"{proxy['weight']:g}"
        shown.add_row(proxy["id"], proxy["url"], weight, labels, state)
    stdout_console().print(shown)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each:g}" for name, each in value.items())
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def show_states(states: Sequence[PoolState], *, as_json: bool) -> None:
    """How the proxies of pools do."""
    if as_json:
        print_line(orjson.dumps([pool_json(state) for state in states]).decode())
        return
    for state in states:
        print_line(_summary(state))
        shown = Table(*_COLUMNS, box=None)
        for each in state.proxies:
            shown.add_row(*_row(each))
        stdout_console().print(shown)


_COLUMNS = (
    "id",
    "proxy",
    "state",
    "score",
    "answers",
    "failed",
    "no way",
    "refused",
    "ms",
    "rests",
)


def _summary(state: PoolState) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in state.states.items() if count)
    words = [f"{state.pool.name}: {counts or 'no proxies'}"]
    if state.pool.disabled:
        words.append("disabled")
    if state.pool.is_counted:
        size = state.spent.bytes / 1e9
        words.append(f"today {state.spent.requests} requests, {size:.3f} GB")
    if state.budget_left is not None:
        words.append(f"{state.budget_left:.0%} of the budget left")
    if state.cost is not None:
        words.append(f"cost {state.cost:.2f}")
    return "; ".join(words)


def _row(each: ProxyState) -> list[str]:
    health = each.health
    left = f" {duration(each.left_s)}" if each.left_s else ""
    rests = sorted({**each.rests, **each.bans})
    more = f" and {len(rests) - _MOST_RESTS} more" if len(rests) > _MOST_RESTS else ""
    counts = (health.answers, health.failed, health.path, health.refused, round(health.mean_ms))
    return [
        each.proxy.id,
        each.proxy.shown,
        f"{each.state}{left}",
        f"{100 * health.score:.0f}",
        *map(str, counts),
        ", ".join(rests[:_MOST_RESTS]) + more,
    ]
