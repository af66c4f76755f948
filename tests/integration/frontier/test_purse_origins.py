"""Charges of a purse by origin: of each day, for a bounded number of origins."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

from crawlstream.model.words.price import Price
from crawlstream_frontier.egress.purse import OTHER_ORIGINS, Purse
from crawlstream_frontier.egress.purse_report import latest, today
from crawlstream_frontier.egress.purses import OK, Buyer, Purses
from support.frontier.bench import KEYS, Bench

pytest_plugins = ["support.frontier.fixtures"]

DAY_S = 86_400


@pytest.fixture
async def purses(bench: Bench) -> Purses:
    """Purses with one that has money."""
    purses = bench.frontier.purses
    assert await purses.put(Purse(name="news", currency="USD", day=10**9)) == OK
    return purses


async def charge(purses: Purses, origin: str, charged: int | None) -> None:
    """Let an origin name 9 millionths, and charge for a page."""
    buyer = Buyer("news", origin, "a.example", "shop", None)
    assert await purses.quote(buyer, Price("USD", 9)) == OK
    sending = f"page w {time.monotonic_ns()}"
    assert (await purses.reserve(buyer, sending))[0] == OK
    await purses.settle("news", origin, sending, price=Price("USD", 9), charged=charged)


async def charges(purses: Purses, dates: Iterable[int]) -> dict[str, int]:
    """Return the charges of origins on some days, in the order of the report."""
    return dict((await purses.details("news", dates)).charges)


async def test_charges_are_added_up_by_origin(purses: Purses) -> None:
    """Largest first; what was not charged, or not for sure, has no origin."""
    for origin, charged in [("a", 4), ("b", 9), ("a", 4), ("c", 0), ("d", None), ("a", 4)]:
        await charge(purses, f"http://{origin}", charged)
    assert list((await charges(purses, latest(2))).items()) == [("http://a", 12), ("http://b", 9)]
    assert not await charges(purses, latest(2)[:-2])
    assert not await charges(purses, ())
    state = await purses.state("news")
    assert state
    assert (state.charged, state.pages) == (21, 4)


async def test_a_charge_belongs_to_the_day_of_its_reservation(bench: Bench, purses: Purses) -> None:
    """The days of a report are those of its sums; after 100 days there is nothing left."""
    await charge(purses, "http://a", 5)
    name = f"{KEYS.tag}purse:news"
    at = int(await bench.redis.hget(name, "at"))
    await bench.redis.hset(name, "at", at + 2 * DAY_S * 1000)
    await charge(purses, "http://a", 7)
    first = at // (DAY_S * 1000)
    assert first in {today() - 1, today()}
    found = [await charges(purses, [first + more]) for more in (0, 1, 2)]
    assert found == [{"http://a": 5}, {}, {"http://a": 7}]
    assert await charges(purses, range(first, first + 3)) == {"http://a": 12}
    left_s = await bench.redis.ttl(f"{KEYS.tag}purse:origins:news:{first}")
    assert 99 * DAY_S < left_s <= 100 * DAY_S


async def test_a_day_has_a_thousand_origins_and_the_sum_of_all_others(
    bench: Bench, purses: Purses
) -> None:
    """Known ones go on; so a site with endless names cannot fill Redis."""
    for number in range(1_003):
        await charge(purses, f"http://h{number}", 2)
    await charge(purses, "http://h7", 3)
    key = f"{KEYS.tag}purse:origins:news:{today()}"
    assert await bench.redis.hlen(key) == 1_001
    found = await charges(purses, latest(2))
    assert next(iter(found)) == "http://h7"
    assert list(found.items())[-1] == (OTHER_ORIGINS, 6)
    assert sum(found.values()) == 2 * 1_003 + 3
    await bench.redis.hset(f"{KEYS.tag}purse:origins:news:{today() - 1}", "http://new", 1)
    found = await charges(purses, latest(2))
    assert (len(found), found[OTHER_ORIGINS]) == (1_001, 6 + 1)
    assert await purses.remove("news")
    assert not await bench.redis.keys("*origins*")
