"""How proxies do, as people are shown it."""

from __future__ import annotations

import pytest

from crawlstream.errors import ConfigError
from crawlstream.model.egress.pools import Pool, PoolTable, Proxy, Secret
from crawlstream_frontier.egress.proxy_ranking import ranked
from crawlstream_frontier.egress.proxy_states import pool_json, pool_named, states_of, why
from crawlstream_frontier.proxy_reports import PoolSpend, ProxyHealth, ProxyNews

PROXIES = tuple(
    Proxy(scheme="http", host="10.0.0.1", port=port, user="u", password=Secret("hunter2"))
    for port in range(1, 6)
)
OK, TRIAL, OUT, BANNED, GONE = PROXIES
TABLE = PoolTable(
    pools={
        "de": Pool(
            name="de",
            proxies=(*PROXIES[:4], Proxy(scheme="http", host="b", port=1, disabled=True)),
            budget_requests=100,
            budget_gb=1,
            price_per_gb=4,
        ),
        "a": Pool(name="a", disabled=True),
    }
)
HEALTH = {
    OK.id: ProxyHealth(score=0.876, answers=9, mean_ms=12.34),
    TRIAL.id: ProxyHealth(times_out=1),
}
NEWS = [
    ProxyNews("r", OK.id, "site", 30, 0),
    ProxyNews("o", OUT.id, "*", 20, 1),
    ProxyNews("o", BANNED.id, "*", 20, 1),
    ProxyNews("b", BANNED.id, "*", 50, 0),
    ProxyNews("b", TRIAL.id, "site", 10, 0),
    ProxyNews("o", GONE.id, "*", 20, 1),
]


def test_each_proxy_has_one_state_and_no_password() -> None:
    """A ban by an operator has precedence over states that the cluster has found out."""
    empty, pool = states_of(TABLE, HEALTH, NEWS, {"de": PoolSpend(25, 500_000_000)})
    told = pool_json(pool)
    assert [one["state"] for one in told["proxies"]] == [
        *("ok", "trial", "out", "banned", "disabled")
    ]
    assert set(told["states"].values()) == {1}
    assert [one["left_s"] for one in told["proxies"]] == [0, 0, 20, 50, 0]
    assert (told["proxies"][0]["score"], told["proxies"][0]["mean_ms"]) == (88, 12.3)
    assert told["proxies"][0]["rests"] == {"site": 30}
    assert told["proxies"][1]["bans"] == {"site": 10}
    assert (told["budget_left"], told["cost_today"]) == (0.5, 2.0)
    assert "hunter2" not in repr((told, pool))
    assert (empty.budget_left, empty.cost, sum(empty.states.values())) == (None, None, 0)
    assert "proxies" not in pool_json(empty, with_proxies=False)


def test_why_tells_the_order_and_what_is_against_each() -> None:
    """Lists proxies in the order of crawlers, with the reason against each."""
    _, pool = states_of(TABLE, HEALTH, NEWS, {"de": PoolSpend(100, 0)})
    rows = why(pool, "site")
    assert [row["id"] for row in rows] == [
        proxy.id for proxy in ranked(TABLE.pools["de"].proxies, "site")
    ]
    reasons = {row["id"]: row["why"] for row in rows}
    spent = "the budget of the day is spent; "
    assert reasons[OK.id] == spent + "rests for this site for 30 s"
    assert reasons[TRIAL.id] == spent + "banned for this site for 10 s"
    assert reasons[OUT.id] == spent + "out for 20 s"
    assert reasons[BANNED.id] == spent + "banned for 50 s"
    _, fresh = states_of(TABLE, {}, [], {})
    assert [row["why"] for row in why(fresh, "site")].count("") == 4


def test_an_unknown_pool_is_refused_with_those_that_there_are() -> None:
    """The error lists the names of the pools."""
    states = states_of(TABLE, {}, [], {})
    assert pool_named(states, "de").pool.name == "de"
    with pytest.raises(ConfigError, match="'x'; the pools are: a, de"):
        pool_named(states, "x")
