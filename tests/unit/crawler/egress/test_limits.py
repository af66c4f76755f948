"""How much of a proxy and of a pool one worker may use: shares, uses, budgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from crawling.egress.limits import PoolLimits, share_of
from crawling.egress.local_book import LocalBook
from crawling.egress.shared_book import SharedBook
from crawlstream.model.egress.pools import Pool, PoolTable, Proxy
from crawlstream_frontier.proxy_reports import BookAnswer, PoolSpend, ProxyReport, ProxyUse
from support.crawler.leases import Clock

PROXY = Proxy(scheme="http", host="10.0.0.1", port=80)
DAY_S = 86_400


class Session:
    """A cluster that answers what the test says."""

    def __init__(self) -> None:
        self.answer = BookAnswer()
        self.told: list[ProxyReport] = []

    async def exchange(self, report: ProxyReport, *, is_user: bool) -> BookAnswer:
        """Make one call."""
        assert not is_user
        self.told.append(report)
        return self.answer


@dataclass
class House:
    """The limits of one worker."""

    limits: PoolLimits
    book: LocalBook
    shared: SharedBook
    session: Session
    clock: Clock
    now: Callable[[], float]


@pytest.fixture
def house() -> House:
    """A worker that knows one proxy."""
    clock, session = Clock(), Session()
    book = LocalBook(clock)
    book.keep(frozenset({PROXY.id}))
    shared = SharedBook(cast(Any, session), book, is_needed=lambda: True)
    clock.now = 10.0 * DAY_S

    def now() -> float:
        return clock.now

    return House(PoolLimits(book, shared, now=now), book, shared, session, clock, now)


@pytest.mark.parametrize("concurrency", [1, 2, 7, 8, 30])
@pytest.mark.parametrize("workers", [1, 2, 3, 8, 20])
def test_the_shares_of_all_workers_are_what_a_proxy_may_have(
    concurrency: int, workers: int
) -> None:
    """Divides a proxy's requests among any number of workers; the remainder varies by proxy."""
    for proxy in ("p", "q", "r"):
        shares = [share_of(concurrency, proxy, workers, place) for place in range(workers)]
        assert sum(shares) == concurrency
        assert max(shares) - min(shares) <= 1
    if concurrency == 1:
        firsts = {
            next(place for place in range(20) if share_of(1, f"p{number}", 20, place))
            for number in range(100)
        }
        assert len(firsts) > 10


def test_a_proxy_has_a_place_until_its_share_is_under_way(house: House) -> None:
    """Two of four with two workers; without a limit always."""
    pool = Pool(name="de", concurrency=4)
    house.book.workers, house.book.place = 2, 1
    house.book.busy[PROXY.id] = 1
    assert house.limits.has_place(pool, PROXY)
    house.book.busy[PROXY.id] = 2
    assert not house.limits.has_place(pool, PROXY)
    assert house.limits.has_place(Pool(name="de", concurrency=0), PROXY)


def test_a_proxy_that_was_used_enough_for_a_site_rests_there(house: House) -> None:
    """Lets a proxy rest after its uses for a site, and counts again; the cluster gets each use."""
    pool = Pool(name="de", uses=3, rest_s=60)
    for _ in range(2):
        house.limits.used(pool, PROXY, "a")
    house.limits.used(pool, PROXY, "b")
    assert house.book.is_fit(PROXY.id, "a")
    house.limits.used(pool, PROXY, "a")
    assert (house.book.is_fit(PROXY.id, "a"), house.book.is_fit(PROXY.id, "b")) == (False, True)
    assert house.book.notes.take().uses == [
        ProxyUse(PROXY.id, "b", 1, 3, 60_000),
        ProxyUse(PROXY.id, "a", 3, 3, 60_000),
    ]
    house.clock.now += 60
    house.limits.used(pool, PROXY, "a")
    assert house.book.is_fit(PROXY.id, "a")


async def test_a_budget_is_what_the_cluster_has_used_and_what_is_not_told_yet(
    house: House,
) -> None:
    """This day, in UTC: requests or bytes, whichever is spent first."""
    pool = Pool(name="de", budget_requests=10, budget_gb=1)
    house.limits.renew(PoolTable(pools={"de": pool, "other": Pool(name="other")}))
    assert not house.limits.is_spent(Pool(name="other"))
    house.session.answer = BookAnswer(day=10, spent={"de": PoolSpend(8, 0)})
    await house.shared.exchange()
    assert house.session.told[-1].spends == {"de": PoolSpend()}
    house.limits.used(pool, PROXY, "a")
    assert not house.limits.is_spent(pool)
    house.limits.used(pool, PROXY, "a")
    assert house.limits.is_spent(pool)
    house.clock.now += DAY_S
    assert not house.limits.is_spent(pool)
    house.limits.weighed(pool, 999_999_999)
    assert not house.limits.is_spent(pool)
    house.limits.weighed(pool, 1)
    assert house.limits.is_spent(pool)
    assert house.limits.spent("de") == PoolSpend(2, 10**9)
