"""Metrics of purses: there are at most 100, so there are few series."""

from __future__ import annotations

from crawlstream.errors import NoFrontier
from crawlstream_frontier.egress.purse_report import today
from crawlstream_frontier.egress.purses import Purses
from redis_monitor import metrics

_UNIT = 1_000_000


async def note_purses(purses: Purses) -> None:
    """Publish the sums of all purses; RedisUnavailable before any of them changes.

    While Redis is empty, and waits for its recovery, there are none.
    """
    try:
        states = await purses.all()
    except NoFrontier:
        states = ()
    for gauge in (metrics.PURSE_SPENT, metrics.PURSE_BUDGET, metrics.PURSE_DISTRUSTED):
        gauge.clear()
    for state in states:
        name = state.purse.name
        metrics.PURSE_SPENT.labels(name, state.purse.currency).set(state.total / _UNIT)
        metrics.PURSE_DISTRUSTED.labels(name).set(state.distrusted)
        for budget, left in state.left(today()).items():
            metrics.PURSE_BUDGET.labels(name, budget).set(left)
