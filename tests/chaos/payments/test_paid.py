"""A crawl that pays while its crawlers and Redis die: the auditor finds nothing.

``crawlstream chaos --faults paid`` is the long form.
"""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from chaos.payments.paid_round import PaidRound
from crawlstream.boot.failpoints import PAID_STEPS
from crawlstream.signing.signer import EXACT_PRICE
from crawlstream_chaos.facts.facts import RESULTS, Facts
from crawlstream_chaos.laws.auditor import nothing_lost
from crawlstream_chaos.laws.payments import LAWS as OF_PAYMENTS
from crawlstream_chaos.laws.signatures import LAWS as OF_SIGNATURES
from crawlstream_chaos.laws.signatures import Refused, Verifier
from crawlstream_chaos.processes import RunningServer, freeze
from support.crawler.cluster import WIDE_OPEN
from support.session.own import own_redis_server
from support.waiting import wait_until

__all__ = ["own_redis_server"]

AWAY_S = 10
DIES_AT = (*PAID_STEPS, "after_fetch", "after_publish")


async def test_money_is_safe_whatever_dies(paid: PaidRound, redis_server: RunningServer) -> None:
    """Reserved covers charged, the budget covers reserved, and each page comes, paid or not.

    Each request is signed for its time, also while the key changes.
    """
    await paid.feed()
    for step in DIES_AT:
        await paid.die_at(step)
    paid.rotate_key()
    with paid.worker():
        before = paid.bill
        await wait_until(lambda: paid.bill > before)
        await paid.restart_redis(redis_server)
        await paid.cluster.set_rules(WIDE_OPEN, {})
        facts = await paid.end()
    laws = {**OF_PAYMENTS, **OF_SIGNATURES, "nothing is lost": nothing_lost}
    assert not {name: found for name, law in laws.items() if (found := list(law(facts)))}
    assert facts.spending is not None
    charged, last = [v for v in facts.visits if v.charged], facts.spending.last
    assert last.state.charged
    assert len(facts.spending.open) <= sum(strike.in_flight for strike in facts.strikes)
    assert len(DIES_AT) < len(charged)
    statuses = {r.value["status_code"] for r in facts.records if r.topic == RESULTS}
    assert statuses >= {200, 402}
    _refuse_all_others(facts)


async def test_a_redis_that_does_not_answer_costs_nothing(
    paid: PaidRound, redis_server: RunningServer
) -> None:
    """Receipts are booked when it answers; the log has a few lines about it, and none by page."""
    await paid.feed()
    with paid.worker() as worker:
        await wait_until(lambda: paid.bill)
        await paid.note("freeze-redis", "redis")
        freeze(redis_server.pid)
        await asyncio.sleep(AWAY_S)
        os.kill(redis_server.pid, signal.SIGCONT)
        await paid.cluster.set_rules(WIDE_OPEN, {})
        facts = await paid.end()
        logged = worker.events()
    laws = {**OF_PAYMENTS, "nothing is lost": nothing_lost}
    assert not {name: found for name, law in laws.items() if (found := list(law(facts)))}
    assert facts.spending is not None
    assert not facts.spending.open
    assert facts.spending.last.state.charged == paid.bill
    assert sum(each.get("event") == "payment" for each in logged) < 5
    assert not [each for each in logged if "exc_info" in each or "exception" in each]


def _refuse_all_others(facts: Facts) -> None:
    """No signature of the round holds for another host, agent or price."""
    keys = {keyid: x for each in facts.published for keyid, x in each.keys.items()}
    assert len(keys) == 2
    for visit in facts.visits:
        signed, host = visit.signature, {"authority": visit.authority}
        others = [({}, {"authority": "other.example"}), ({"signature-agent": '"https://x"'}, host)]
        if EXACT_PRICE in signed:
            others.append(({EXACT_PRICE: "USD 0.99"}, host))
        Verifier(keys).verify(signed, **host, now=None)
        for changed, where in others:
            with pytest.raises(Refused):
                Verifier(keys).verify({**signed, **changed}, **where, now=None)
