"""Metrics of purses, as redis-monitors publish them."""

from __future__ import annotations

from dataclasses import replace

from crawlstream.model.words.price import Price
from crawlstream_frontier.egress.purse import Purse
from crawlstream_frontier.egress.purses import OK, Buyer
from redis_monitor import metrics
from redis_monitor.purse_metrics import note_purses
from support.frontier.bench import Bench, open_bench
from support.monitors import published

pytest_plugins = ["support.frontier.fixtures"]

CENT = 10_000
NEWS = Purse(name="news", currency="USD", day=10 * CENT, total=40 * CENT)
SHOP = Buyer("news", "http://a.example:80", "a.example", "shop", None)


async def test_money_and_budgets_of_all_purses_are_published(bench: Bench) -> None:
    """Publishes money in units of its currency; missing budgets have no value."""
    purses = bench.frontier.purses
    for purse in (NEWS, Purse(name="off", currency="EUR", day=0)):
        assert await purses.put(purse) == OK
    assert await purses.quote(SHOP, Price("USD", 2 * CENT)) == OK
    for sending, charged in {"a": 2 * CENT, "b": CENT, "c": None}.items():
        await purses.reserve(SHOP, sending)
        price = Price("USD", 2 * CENT)
        await purses.settle("news", SHOP.origin, sending, price=price, charged=charged)
    await note_purses(purses)
    assert published(metrics.PURSE_SPENT) == {("news", "USD"): 0.05, ("off", "EUR"): 0}
    assert published(metrics.PURSE_BUDGET) == {("news", "day"): 0.5, ("news", "total"): 0.875}
    assert published(metrics.PURSE_DISTRUSTED) == {("news",): 0, ("off",): 0}
    await purses.remove("off")
    await note_purses(purses)
    assert published(metrics.PURSE_DISTRUSTED) == {("news",): 0}


async def test_an_empty_redis_has_no_purses(bench: Bench) -> None:
    """The other figures of the cluster are published after these."""
    assert await bench.frontier.purses.put(NEWS) == OK
    await note_purses(bench.frontier.purses)
    assert published(metrics.PURSE_DISTRUSTED)
    await bench.redis.flushall()
    await note_purses(bench.frontier.purses)
    assert not published(metrics.PURSE_DISTRUSTED)
    await open_bench(bench.redis)  # For the audit.


async def test_a_site_that_charged_more_is_counted_until_it_is_forgiven(bench: Bench) -> None:
    """Its surplus counts, but no more than nothing is left of a budget."""
    purses = bench.frontier.purses
    assert await purses.put(replace(NEWS, day=2 * CENT, total=None)) == OK
    assert await purses.quote(SHOP, Price("USD", CENT)) == OK
    await purses.reserve(SHOP, "a")
    await purses.settle("news", SHOP.origin, "a", price=Price("USD", CENT), charged=5 * CENT)
    await note_purses(purses)
    assert published(metrics.PURSE_BUDGET) == {("news", "day"): 0}
    assert published(metrics.PURSE_DISTRUSTED) == {("news",): 1}
    assert await purses.forgive("news", SHOP.origin) == OK
    await note_purses(purses)
    assert published(metrics.PURSE_DISTRUSTED) == {("news",): 0}
