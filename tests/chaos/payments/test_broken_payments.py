"""A crawler that pays wrongly is found by the auditor, from the site's log and the purse."""

from __future__ import annotations

import pytest

from chaos.payments.broken_payments import BREAKS, TEXTS
from chaos.payments.paid_round import PaidRound
from crawlstream_chaos.laws.payments import LAWS as OF_PAYMENTS
from crawlstream_chaos.laws.signatures import LAWS as OF_SIGNATURES
from support.frontier.lua import LUA

CAUGHT = {
    "reserve-nothing": "nothing is charged without a reservation",
    "reserve-late": "nothing is charged without a reservation",
    "free-all": "nothing is charged without a reservation",
    "no-budget": "no budget is exceeded",
    "never-settle": "each charge is booked once",
    "settle-twice": "each charge is booked once",
    "pay-twice": "no page is paid twice",
    "refuse": "a page is paid where its purse can",
    "offer-unsigned": "every request is signed",
}


@pytest.mark.parametrize("name", CAUGHT)
async def test_a_crawler_that_pays_wrongly_is_caught(paid: PaidRound, name: str) -> None:
    """The auditor names the law that it breaks."""
    await paid.feed()
    with paid.worker(BREAK=name, CRAWLSTREAM_SPIDER_MODULES="chaos.payments.broken_payments"):
        facts = await paid.end()
    laws = {**OF_PAYMENTS, **OF_SIGNATURES}
    assert CAUGHT[name] in {law for law, judge in laws.items() if list(judge(facts))}


def test_every_break_is_to_be_caught() -> None:
    """A way to pay wrongly that nothing catches would prove nothing, nor one without effect."""
    assert CAUGHT.keys() == BREAKS.keys()
    text = (LUA / "operations/worker/purse.lua").read_text()
    assert all(text.count(each) == 1 for each in TEXTS.values())
