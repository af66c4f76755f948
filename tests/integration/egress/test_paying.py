"""Pages that are paid: by a purse, exactly, and never beyond its budget, whatever dies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crawlstream.model.words.price import Price
from crawlstream.signing.keys import new_key
from crawlstream.tasks import wait_until
from crawlstream_chaos.laws.signatures import Verifier
from crawlstream_chaos.scripted_site import Answer, Page, page, serving
from crawlstream_frontier.egress.purse import Purse, PurseState
from crawlstream_frontier.egress.purses import OK, Purses
from support.crawler.charging import ChargingSite
from support.crawler.cluster import CrawlerCluster

pytest_plugins = ["support.crawler.fixtures"]

CENT = 10_000
NEWS = Purse(name="news", currency="USD", day=6 * CENT, total=10 * CENT, apps=("tests",))


class Money:
    """A crawler with a key and a purse, and the paths of a site that charges."""

    def __init__(self, cluster: CrawlerCluster, home: Path) -> None:
        key = new_key(home / "key.pem")
        self.cluster = cluster
        self.site = ChargingSite({}, Verifier({key.keyid: key.x}))
        self.env = {
            "CRAWLSTREAM_SIGNING_KEYS": str(home / "key.pem"),
            "CRAWLSTREAM_SIGNATURE_AGENT": "https://bot.example",
            "RETRY_TIMES": "2",
        }

    @property
    def purses(self) -> Purses:
        """The purses of the cluster."""
        return self.cluster.frontier.purses

    def pages(self, **cents: int) -> dict[str, Page]:
        """Paths with their prices."""
        self.site.prices |= {f"/{path}": Price("USD", each * CENT) for path, each in cents.items()}
        return {f"/{path}": self.site for path in cents}

    async def state(self) -> PurseState:
        """The purse, once all is settled; what sites have charged is within what is spent."""

        async def is_quiet() -> bool:
            found = await self.purses.state("news")
            return found is not None and not found.open

        await wait_until(is_quiet, timeout_s=20)
        state = await self.purses.state("news")
        assert state is not None
        assert self.site.total <= state.total <= 10 * CENT
        return state

    def payments(self) -> dict[str, Any]:
        """The field of each page's latest result, by its path."""
        return {r["url"].rpartition("/")[2]: r.get("payment") for r in self.cluster.results()}


@pytest.fixture
async def money(cluster: CrawlerCluster, tmp_path: Path) -> Money:
    """A purse that pays for the crawls of the tests."""
    found = Money(cluster, tmp_path)
    assert await found.purses.put(NEWS) == OK
    return found


async def test_a_page_is_paid_exactly_once_its_price_is_known(money: Money) -> None:
    """Pays the first page at its second request, and later pages at once.

    A retry has a reservation of its own, since the site may have charged for the attempt before.
    Neither robots.txt nor crawls without a purse are paid, nor prices above the crawl's limit.
    """
    cluster = money.cluster
    assert await money.purses.put(replace(NEWS, day=10 * CENT)) == OK
    pages = money.pages(a=1, b=1, free=1, cheap=1, lost=1, dear=3, other=1, late=1)
    money.site.lost.add("/lost")
    money.site.receipts = {"/cheap": "USD 0.004", "/free": ""}
    pages["/robots.txt"] = Answer(b"User-agent: *\nAllow: /\n", headers={})
    with serving(pages) as site, cluster.worker(ROBOTSTXT_OBEY="true", **money.env):
        paths = ("a", "b", "cheap", "free", "lost", "dear")
        for path in paths:  # Fetched one by one: each of them meets the price of the one before.
            crawl = await cluster.ask({"url": site.url(f"/{path}"), "purse": "news"})
            await cluster.end_of(crawl, timeout_s=30)
        await cluster.end_of(await cluster.ask({"url": site.url("/other")}), timeout_s=30)
        limited = {"url": site.url("/late"), "purse": "news", "max_price": "USD 0.005"}
        await cluster.end_of(await cluster.ask(limited), timeout_s=30)
        offers = [(v.path, v.headers.get("crawler-exact-price")) for v in site.visits]
        state = await money.state()
    cent = "USD 0.01"
    assert [each for each in offers if each[0] != "/robots.txt"] == [
        *(("/a", None), ("/a", cent), ("/b", cent), ("/cheap", cent), ("/free", cent)),
        *(("/lost", cent), ("/lost", cent)),
        *(("/dear", cent), ("/dear", "USD 0.03"), ("/other", None), ("/late", None)),
    ]
    assert {offer for path, offer in offers if path == "/robots.txt"} == {None}
    found = money.payments()
    assert found["a"] == {"price": None, "charged": cent, "error": None, "purse": "news"}
    assert found["free"]["charged"] is None
    assert found["late"] == {"price": cent, "charged": None, "error": None, "purse": None}
    assert (state.charged, state.unsettled, state.pages) == (24_000 + 4 * CENT, 2 * CENT, 5)
    assert state.total == state.charged + state.unsettled
    assert (await cluster.state_of(crawl)).charged == {"USD": state.charged}


async def test_money_is_never_offered_beyond_the_budget(money: Money) -> None:
    """Offers no money beyond the budget, however many pages need it; others keep their price."""
    pages = money.pages(**{f"p{number}": 1 for number in range(30)})
    pages["/"] = page(*pages)
    with serving(pages) as site, money.cluster.worker(**money.env):
        crawl = await money.cluster.ask({"url": site.url("/"), "maxdepth": 1, "purse": "news"})
        await money.cluster.end_of(crawl, timeout_s=60)
        state = await money.state()
    paid = [each for each in money.payments().values() if each and each["charged"]]
    assert len(money.site.charged) == len(paid) == 6
    assert (state.charged, state.total, state.pages) == (6 * CENT, 6 * CENT, 6)


@pytest.mark.parametrize(
    "step",
    ["after_reserve", "after_fetch", "before_settlement", "after_publish", "before_settle"],
)
async def test_a_crawler_may_die_at_any_step(money: Money, step: str) -> None:
    """Its reservation stays spent; the page is fetched again by another, with money of its own."""
    cluster = money.cluster
    with serving(money.pages(a=1)) as site:
        crawl = await cluster.ask({"url": site.url("/a"), "purse": "news"})
        number = 1 if step in {"after_publish", "before_settlement", "before_settle"} else 2
        with cluster.worker(FAILPOINT=f"{step}:kill:{number}", **money.env) as worker:
            assert worker.wait(timeout_s=30) == -9
        dead = await money.purses.state("news")
        assert dead is not None
        assert money.site.total <= dead.total == CENT
        with cluster.worker(**money.env):
            await cluster.end_of(crawl, timeout_s=60)
            await wait_until(lambda: len(money.payments()) == 1, timeout_s=20)
        after = await money.purses.state("news")
        assert after is not None
    charges = len(money.site.charged)
    assert charges == (1 if step == "after_reserve" else 2)
    assert after.total == 2 * CENT
    assert after.charged <= money.site.total <= after.total
