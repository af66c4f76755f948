"""The laws of money: whatever is planted among good facts is found, and named by its law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from crawlstream_chaos.facts.facts import Facts, FedCrawl, Strike, TopicRecord
from crawlstream_chaos.facts.spending import PurseSample, Spending
from crawlstream_chaos.laws.auditor import nothing_lost
from crawlstream_chaos.laws.payments import LAWS
from crawlstream_cli.demo.access_log import LoggedRequest
from crawlstream_frontier.egress.purse import OpenPayment, Purse, PurseState

CENT = 10_000
URLS = [f"http://127.0.0.1:1/{n}" for n in range(3)]
STRIKE = Strike(fault="die-paying", target="crawler", at=1_500, in_flight=1)
PAID: dict[str, Any] = {"price": None, "charged": "USD 0.01", "error": None, "purse": "chaos"}
UNPAID: dict[str, Any] = {"price": "USD 0.01", "charged": None, "error": None, "purse": None}
Plant = Callable[[Facts], Facts]


def result(number: int, at: float, status: int = 200, **payment: Any) -> TopicRecord:
    """The result of a page."""
    value = {
        "crawlid": "c", "url": URLS[number], "status_code": status, "id": f"id-{number}",
        "payment": payment or PAID,
    }  # fmt: skip
    return TopicRecord(
        topic="crawled_firehose", key=None, value=value, partition=0, offset=number, at=at
    )


def visit(number: int, at: float, charged: str = "USD 0.01") -> LoggedRequest:
    """A request that the site has charged."""
    return LoggedRequest(at, at, "127.0.0.1", "GET", f"/{number}", 200, "", charged=charged)


def sample(at: float, cents: int, missing: int = 0, **sums: int) -> PurseSample:
    """The purse with so much spent."""
    purse = Purse(name="chaos", currency="USD", day=9 * CENT, total=9 * CENT)
    fields: dict[str, Any] = {
        "charged": 0, "unsettled": 0, "overcharged": 0, "pages": 0, "open": 0, "distrusted": 0,
        "is_closed": False,
        **sums,
    }  # fmt: skip
    state = PurseState(purse=purse, total=cents * CENT, **fields)
    return PurseSample(at=at, state=state, missing=missing * CENT)


GOOD = Facts(
    fed=[FedCrawl(crawlid="c", delivered=dict.fromkeys(URLS, 200))],
    records=[result(n, 1_000 * n + 100) for n in range(3)],
    visits=[visit(0, 0), visit(1, 1_000), visit(1, 1_600), visit(2, 2_000)],
    strikes=[STRIKE],
    spending=Spending(
        budget=9 * CENT,
        prices=dict.fromkeys(URLS, CENT),
        samples=[sample(0, 1), sample(1_999, 3), sample(9_000, 4, charged=3 * CENT)],
        open=[OpenPayment("id-1", CENT, 1.0)],
    ),
)
"""The crawler of the second page died with its receipt, and the page was paid again."""


def spent(*samples: PurseSample, budget: int = 9, **more: Any) -> Plant:
    """Another purse."""

    def plant(facts: Facts) -> Facts:
        assert facts.spending
        fields = {"samples": samples or facts.spending.samples, "budget": budget * CENT, **more}
        return replace(facts, spending=replace(facts.spending, **fields))

    return plant


def seen(*visits: LoggedRequest) -> Plant:
    """Add visits."""
    return lambda facts: replace(facts, visits=[*facts.visits, *visits])


def came(*records: TopicRecord) -> Plant:
    """Other results of the same pages."""
    numbers = {record.offset for record in records}
    return lambda facts: replace(
        facts, records=[*(r for r in facts.records if r.offset not in numbers), *records]
    )


def struck(*strikes: Strike) -> Plant:
    """Other faults."""
    return lambda facts: replace(facts, strikes=strikes)


def of(*plants: Plant) -> Plant:
    """Several changes."""

    def plant(facts: Facts) -> Facts:
        for each in plants:
            facts = each(facts)
        return facts

    return plant


CUT = Strike(fault="power-cut", target="redis", at=500, seconds=1, in_flight=2)
LOSS = of(struck(STRIKE, CUT), spent(sample(2_500, 2, 2), sample(9_000, 2, 2, charged=2 * CENT)))

PLANTED = {
    "a charge before its reservation": (
        spent(sample(0, 0), sample(9_000, 4, charged=3 * CENT)),
        "nothing is charged without a reservation",
        "10000 is charged, and 0 is reserved",
    ),
    "more missing than was in flight": (
        of(LOSS, struck(STRIKE, replace(CUT, in_flight=1))),
        "nothing is charged without a reservation",
        "20000 is missing, and 1 pages were in flight",
    ),
    "more reserved than the budget": (
        spent(budget=3), "no budget is exceeded", "40000 of 30000 is reserved",
    ),
    "a budget that was not lowered by what is missing": (
        of(LOSS, spent(budget=3, samples=[sample(9_000, 2, 2, charged=2 * CENT)])),
        "no budget is exceeded",
        "20000 of 10000 is reserved",
    ),
    "a receipt that is booked twice": (
        spent(sample(9_000, 9, charged=5 * CENT)),
        "each charge is booked once",
        "50000 is booked as charged, and 40000 was charged",
    ),
    "a receipt that is lost": (
        spent(open=[]), "each charge is booked once", "30000 is booked, 0 is listed as open",
    ),
    "a surplus that no site has charged": (
        spent(sample(9_000, 4, charged=4 * CENT, overcharged=CENT)),
        "each charge is booked once",
        "10000 is booked as charged beyond",
    ),
    "a payment that nobody finishes": (
        struck(), "each charge is booked once", "1 payments are open, and faults explain 0",
    ),
    "a page that is paid again for nothing": (
        seen(visit(2, 2_100)), "no page is paid twice", "repeat 2; faults explain 1",
    ),
    "a page that is paid again before its fault": (
        struck(replace(STRIKE, at=1_700)), "no page is paid twice", "repeat 1; faults explain 0",
    ),
    "a page that is not paid for nothing": (
        came(result(2, 2_100, 402, **UNPAID)),
        "a page is paid where its purse can",
        "is not paid, and its purse could",
    ),
    "a page without its receipt": (
        came(result(2, 2_100, **UNPAID)), "a page is paid where its purse can", "for a price of",
    ),
    "a page that stays unpaid long after its purse is open": (
        of(LOSS, came(result(2, 25_000, 402, **UNPAID))),
        "a page is paid where its purse can",
        "is not paid, and its purse could",
    ),
}  # fmt: skip


def broken(facts: Facts) -> dict[str, list[str]]:
    """The laws of money that are broken, and how."""
    return {name: found for name, law in LAWS.items() if (found := list(law(facts)))}


@pytest.mark.parametrize(("plant", "law", "words"), PLANTED.values(), ids=PLANTED)
def test_every_planted_violation_is_found_and_named(plant: Plant, law: str, words: str) -> None:
    """Its law is among those that are broken, with what it was."""
    assert any(words in what for what in broken(plant(GOOD)).get(law, ()))


def test_every_law_is_planted_against() -> None:
    """No law that nothing was ever seen to break."""
    assert {law for _, law, _ in PLANTED.values()} == LAWS.keys()


@pytest.mark.parametrize(
    "plant",
    [
        of(),
        lambda facts: replace(facts, spending=None),
        LOSS,
        of(LOSS, came(result(2, 3_000, 402, **UNPAID))),
        of(spent(budget=4), came(result(2, 2_100, 402, **UNPAID))),
        spent(sample(1, 0, is_closed=True), sample(9_000, 4, charged=3 * CENT)),
    ],
    ids=["good", "no purse", "a loss", "closed", "empty", "unknown while closed"],
)
def test_what_is_good_is_called_good(plant: Plant) -> None:
    """A fault explains a second payment, a restart what is missing, and either an unpaid page."""
    assert broken(plant(GOOD)) == {}


def test_a_page_that_comes_unpaid_is_not_lost() -> None:
    """It counts as delivered; the laws of money say whether it had to be paid."""
    unpaid = came(result(2, 2_100, 402, **UNPAID))(GOOD)
    assert not list(nothing_lost(unpaid))
    assert list(nothing_lost(replace(unpaid, spending=None)))
