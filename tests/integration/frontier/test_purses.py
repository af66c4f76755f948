"""Purses: whatever is called, repeated or lost, reserved money stays within its budgets."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from crawlstream.model.words.price import Price
from crawlstream_frontier.egress.purse import Purse, PurseState
from crawlstream_frontier.egress.purses import OK, Buyer, Purses
from support.frontier.bench import KEYS, Bench

pytest_plugins = ["support.frontier.fixtures"]

CENT = 10_000
DAY_MS = 86_400_000
NEWS = Purse(name="news", currency="USD", day=5 * CENT, total=8 * CENT)
SHOP = Buyer("news", "http://a.example:80", "a.example", "shop", None)


async def opened(bench: Bench, purse: Purse = NEWS, price: int = CENT) -> Purses:
    """A purse, and an origin whose price is known."""
    purses = bench.frontier.purses
    assert await purses.put(purse) == OK
    assert await purses.quote(SHOP, Price("USD", price)) == OK
    return purses


async def shown(purses: Purses) -> PurseState:
    """The purse as it is now."""
    state = await purses.state("news")
    assert state is not None
    return state


async def let_pass(bench: Bench, ms: int) -> None:
    """Let time pass for the purse: it never goes back behind its latest reservation."""
    key = f"{KEYS.tag}purse:news"
    at = int(await bench.redis.hget(key, "at") or 0)
    await bench.redis.hset(key, "at", at + ms)


async def reserve(purses: Purses, sending: str, buyer: Buyer = SHOP) -> str:
    """Reserve the price for one sending; how it ended."""
    return (await purses.reserve(buyer, sending))[0]


async def test_money_is_reserved_once_up_to_the_budgets(bench: Bench) -> None:
    """A lost answer is asked for again and counts once; the day, then the whole, are limits."""
    purses = await opened(bench)
    for sending in ("1", "1", "2", "2", "3", "4", "5"):
        assert await purses.reserve(SHOP, sending) == (OK, Price("USD", CENT))
    assert await reserve(purses, "6") == "empty"
    await let_pass(bench, DAY_MS)
    await purses.quote(SHOP, Price("USD", CENT))
    assert [await reserve(purses, f"b{n}") for n in range(4)] == [OK, OK, OK, "empty"]
    state = await shown(purses)
    assert sorted(state.days.values()) == [3 * CENT, 5 * CENT]
    assert (state.total, state.open) == (8 * CENT, 8 - 5)  # Days before are overdue.


async def test_only_a_settlement_frees_money_and_only_once(bench: Bench) -> None:
    """Receipts free the rest, no receipt nothing; what is not settled is spent after a while."""
    purses = await opened(bench)
    for sending in "abcd":
        await reserve(purses, sending)
    price = Price("USD", CENT)
    for _ in range(2):
        await purses.settle("news", SHOP.origin, "a", price=price, charged=CENT // 2)
        await purses.settle("news", SHOP.origin, "b", price=price, charged=0)
        await purses.settle("news", SHOP.origin, "c", price=price, charged=None)
    state = await shown(purses)
    assert (state.total, state.charged, state.unsettled) == (CENT * 5 // 2, CENT // 2, CENT)
    assert (state.open, state.pages) == (1, 1)
    await let_pass(bench, 600_001)
    await reserve(purses, "e")
    await purses.settle("news", SHOP.origin, "d", price=price, charged=0)
    state = await shown(purses)
    assert (state.total, state.unsettled, state.open) == (CENT * 7 // 2, 2 * CENT, 1)


async def test_money_is_freed_on_the_day_that_it_was_reserved(bench: Bench) -> None:
    """A settlement after midnight gives the new day no more than its budget."""
    purses = await opened(bench)
    await reserve(purses, "a")
    await let_pass(bench, DAY_MS)
    await purses.settle("news", SHOP.origin, "a", price=Price("USD", CENT), charged=0)
    assert list((await shown(purses)).days.values()) == [0]


async def test_an_origin_that_charges_more_is_not_paid_again(bench: Bench) -> None:
    """Money that it took counts as spent; an operator may trust it again."""
    purses = await opened(bench)
    await reserve(purses, "a")
    await purses.settle("news", SHOP.origin, "a", price=Price("USD", CENT), charged=3 * CENT)
    assert await reserve(purses, "b") == "overcharges"
    state = await shown(purses)
    assert (state.total, state.overcharged) == (3 * CENT, 2 * CENT)
    assert await purses.adopt("news")
    assert await reserve(purses, "b") == OK


@pytest.mark.parametrize(
    ("purse", "buyer", "why"),
    [
        ({}, {"purse": "other"}, "no_purse"),
        ({"apps": ("a", "b")}, {}, "not_for_it"),
        ({"apps": ("workshop", "shop2")}, {}, "not_for_it"),
        ({"domains": ("example",)}, {}, "not_for_it"),
        ({}, {"limit": Price("EUR", 10 * CENT)}, "not_for_it"),
        ({}, {"limit": Price("USD", CENT - 1)}, "too_expensive"),
        ({"max_price": CENT - 1}, {}, "too_expensive"),
        ({"day": CENT - 1}, {}, "empty"),
        ({"total": 0}, {}, "empty"),
        ({"apps": ("b", "shop"), "domains": ("a.example",), "max_price": CENT}, {}, OK),
        ({}, {"limit": Price("USD", CENT)}, OK),
    ],
)
async def test_a_purse_pays_for_whom_and_what_it_is_meant(
    bench: Bench, purse: dict[str, Any], buyer: dict[str, Any], why: str
) -> None:
    """Application, domain, currency, and each limit; a quote says the same."""
    purses = bench.frontier.purses
    assert await purses.put(replace(NEWS, **purse)) == OK
    wanted = SHOP._replace(**buyer)
    assert await purses.quote(wanted, Price("USD", CENT)) == why
    found = await reserve(purses, "1", wanted)
    assert found == why
    assert ((await shown(purses)).total > 0) == (why == OK)


async def test_nothing_is_paid_on_a_memory_that_may_have_holes(bench: Bench) -> None:
    """Closes a purse after a restart of Redis until an operator adopts it."""
    purses = await opened(bench)
    await reserve(purses, "a")
    await bench.pretend_restart()
    assert await reserve(purses, "b") == "closed"
    assert (await shown(purses)).is_closed
    assert await purses.put(replace(NEWS, day=9 * CENT)) == OK
    assert await reserve(purses, "b") == "closed"
    assert await purses.adopt("news")
    assert await reserve(purses, "b") == OK
    assert not await purses.adopt("other")


async def test_prices_and_purses_are_bounded_and_forgotten(bench: Bench) -> None:
    """A price lasts a day; purses are a hundred; one that has spent keeps its currency."""
    purses = await opened(bench)
    await reserve(purses, "a")
    await let_pass(bench, DAY_MS)
    assert await reserve(purses, "b") == "no_price"
    assert await purses.put(replace(NEWS, currency="EUR")) == "other_currency"
    for number in range(99):
        assert await purses.put(replace(NEWS, name=f"p{number}")) == OK
    assert await purses.put(replace(NEWS, name="one-more")) == "too_many"
    assert len(await purses.all()) == 100
    for state in await purses.all():
        assert await purses.remove(state.purse.name)
    assert not [key async for key in bench.redis.scan_iter(f"{KEYS.tag}purse*")]


class Books:
    """A purse, and a ledger in Python of the same calls."""

    def __init__(self, bench: Bench, purses: Purses) -> None:
        self.bench = bench
        self.purses = purses
        self.chance = random.Random(7)
        self.open: dict[str, int] = {}
        self.total, self.days, self.price, self.charged = 0, [0], CENT, 0

    async def reserve(self, sending: str) -> None:
        """Reserve for another sending."""
        fits = self.days[-1] + self.price <= NEWS.day and self.total + self.price <= 40 * CENT
        assert await reserve(self.purses, sending) == (OK if fits else "empty")
        if fits:
            self.open[sending] = self.price
            self.total, self.days[-1] = self.total + self.price, self.days[-1] + self.price

    async def repeat(self, _: str) -> None:
        """Ask again for a reservation that is open."""
        for sending, price in self.open.items():
            if price == self.price:
                assert await reserve(self.purses, sending) == OK

    async def settle(self, _: str) -> None:
        """End one, with any receipt or none."""
        if self.open:
            sending = self.chance.choice(list(self.open))
            cost = self.open.pop(sending)
            paid = self.chance.choice((0, cost // 2, cost, None))
            price = Price("USD", cost)
            await self.purses.settle("news", SHOP.origin, sending, price=price, charged=paid)
            free = 0 if paid is None else cost - paid
            self.total, self.days[-1] = self.total - free, self.days[-1] - free
            self.charged += paid or 0

    async def quote(self, _: str) -> None:
        """Let the site name another price."""
        self.price = self.chance.choice((CENT, CENT // 3, 2 * CENT))
        await self.purses.quote(SHOP, Price("USD", self.price))

    async def sleep(self, _: str) -> None:
        """Begin another day, with nothing in flight."""
        if not self.open:
            await let_pass(self.bench, DAY_MS)
            await self.purses.quote(SHOP, Price("USD", self.price))
            self.days.append(0)


async def test_any_order_of_calls_keeps_the_books(bench: Bench) -> None:
    """Reserved is within both budgets, charged within reserved, as a ledger in Python has it."""
    purses = await opened(bench, replace(NEWS, total=40 * CENT))
    books = Books(bench, purses)
    steps = (books.reserve, books.reserve, books.repeat, books.settle, books.quote, books.sleep)
    for number in range(300):
        await books.chance.choice(steps)(str(number))
        state = await shown(purses)
        assert (state.total, state.charged) == (books.total, books.charged)
        assert state.open == len(books.open)
        assert state.charged <= state.total <= 40 * CENT
        assert max(state.days.values(), default=0) <= NEWS.day
    details = await purses.details("news", state.days)
    assert details.charges == {SHOP.origin: books.charged}
