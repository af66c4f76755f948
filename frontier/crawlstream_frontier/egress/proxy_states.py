"""State of the proxies and pools of the cluster, for people and programs.

It contains no passwords.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from crawlstream.errors import ConfigError
from crawlstream.model.egress.pools import Pool, PoolTable, Proxy
from crawlstream_frontier.egress.proxy_ranking import ranked
from crawlstream_frontier.proxy_reports import ALL_SITES, PoolSpend, ProxyHealth, ProxyNews

State = Literal["ok", "trial", "out", "banned", "disabled"]
"""State of a proxy; ``trial``: it was out, and no site has answered through it since."""
STATES: tuple[State, ...] = ("ok", "trial", "out", "banned", "disabled")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyState:
    """State of a proxy in a pool."""

    proxy: Proxy
    health: ProxyHealth
    state: State
    left_s: float
    """Seconds until it is back; 0: it is in use, or the time is unknown."""
    rests: Mapping[str, float]
    """Seconds left of its rests, by site."""
    bans: Mapping[str, float]
    """Seconds left of an operator's bans, by site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """State of a pool."""

    pool: Pool
    proxies: Sequence[ProxyState]
    spent: PoolSpend
    """Spending of this day in UTC; only counted for pools with a budget or a price."""

    @property
    def states(self) -> Mapping[State, int]:
        """Return the number of proxies in each state."""
        counts = Counter(each.state for each in self.proxies)
        return {state: counts[state] for state in STATES}

    @property
    def budget_left(self) -> float | None:
        """Return the share of the day's budget that is left, 0 to 1; None: it has no budget."""
        pool, spent = self.pool, self.spent
        parts = ((pool.budget_requests, spent.requests), (pool.budget_bytes, spent.bytes))
        lefts = [max(1 - used / most, 0.0) for most, used in parts if most]
        return min(lefts, default=None)

    @property
    def cost(self) -> float | None:
        """Return the cost of the day's traffic in the currency of its price; None: no price."""
        price = self.pool.price_per_gb
        return self.spent.bytes / 1e9 * price if price else None


def states_of(
    table: PoolTable,
    health: Mapping[str, ProxyHealth],
    rests: Sequence[ProxyNews],
    spent: Mapping[str, PoolSpend],
) -> Sequence[PoolState]:
    """Return the states of all pools, in the order of their names."""
    by_proxy: dict[str, list[ProxyNews]] = {}
    for rest in rests:
        by_proxy.setdefault(rest.proxy, []).append(rest)
    return [
        PoolState(
            pool=pool,
            proxies=[
                _state(proxy, health.get(proxy.id, ProxyHealth()), by_proxy.get(proxy.id, ()))
                for proxy in pool.proxies
            ],
            spent=spent.get(name, PoolSpend()),
        )
        for name, pool in sorted(table.pools.items())
    ]


def _state(proxy: Proxy, health: ProxyHealth, rests: Sequence[ProxyNews]) -> ProxyState:
    out = max((rest.left_s for rest in rests if rest.kind == "o"), default=0.0)
    bans = {rest.site: rest.left_s for rest in rests if rest.kind == "b"}
    banned = bans.pop(ALL_SITES, 0.0)
    state: State = "trial" if health.times_out else "ok"
    if out:
        state = "out"
    if banned:
        state = "banned"
    return ProxyState(
        proxy=proxy,
        health=health,
        state="disabled" if proxy.disabled else state,
        left_s=max(out, banned),
        rests={rest.site: rest.left_s for rest in rests if rest.kind == "r"},
        bans=bans,
    )


def pool_json(state: PoolState, *, with_proxies: bool = True) -> dict[str, Any]:
    """Return a pool as JSON."""
    told: dict[str, Any] = {
        "pool": state.pool.name,
        "disabled": state.pool.disabled,
        "states": dict(state.states),
        "requests_today": state.spent.requests,
        "bytes_today": state.spent.bytes,
        "budget_left": state.budget_left,
        "cost_today": state.cost,
    }
    if with_proxies:
        told["proxies"] = [proxy_json(each) for each in state.proxies]
    return told


def proxy_json(state: ProxyState) -> dict[str, Any]:
    """Return a proxy as JSON."""
    health = state.health
    return {
        "id": state.proxy.id,
        "url": state.proxy.shown,
        "labels": list(state.proxy.labels),
        "state": state.state,
        "left_s": round(state.left_s, 1),
        "score": round(100 * health.score),
        "answers": health.answers,
        "refused": health.refused,
        "path": health.path,
        "failed": health.failed,
        "mean_ms": round(health.mean_ms, 1),
        "rests": {site: round(left, 1) for site, left in state.rests.items()},
        "bans": {site: round(left, 1) for site, left in state.bans.items()},
    }


def why(pool: PoolState, site: str) -> Sequence[dict[str, Any]]:
    """Return the proxies of a pool in the order in which they are used for a site.

    ``why`` of a proxy says why it cannot be used now; empty: it can.
    """
    by_id = {each.proxy.id: each for each in pool.proxies}
    order = ranked([each.proxy for each in pool.proxies], site)
    return [
        {
            "place": place,
            "id": proxy.id,
            "url": proxy.shown,
            "why": "; ".join(_reasons(pool, by_id[proxy.id], site)),
        }
        for place, proxy in enumerate(order, 1)
    ]


def _reasons(pool: PoolState, state: ProxyState, site: str) -> Iterator[str]:
    if pool.pool.disabled:
        yield "the pool is disabled"
    if pool.budget_left == 0:
        yield "the budget of the day is spent"
    if state.state not in {"ok", "trial"}:
        yield f"{state.state} for {state.left_s:.0f} s" if state.left_s else state.state
    if site in state.bans:
        yield f"banned for this site for {state.bans[site]:.0f} s"
    if site in state.rests:
        yield f"rests for this site for {state.rests[site]:.0f} s"


def pool_named(states: Sequence[PoolState], name: str) -> PoolState:
    """Return the pool with a name; raise ConfigError if there is none."""
    found = next((state for state in states if state.pool.name == name), None)
    if found is None:
        known = ", ".join(state.pool.name for state in states) or "none"
        raise ConfigError(f"there is no pool {name!r}; the pools are: {known}")
    return found
