"""Shares: a domain whose pages are expensive gets fewer requests, while others wait."""

from __future__ import annotations

import pytest

from crawling.lease.cpu_fairness import FREE_S, LONGEST_REST_S, Shares
from support.crawler.leases import Clock

CHEAP_S = 0.005


@pytest.mark.parametrize("dear_s", [0.05, 1.0, 5.0])
def test_expensive_pages_take_no_more_than_the_share_of_their_domain(dear_s: float) -> None:
    """Three of ten domains are expensive: the others have the share of equals."""
    clock = Clock(now=0.0)
    shares = Shares(clock)
    costs = {f"{n}.example": dear_s if n < 3 else CHEAP_S for n in range(10)}
    spent = dict.fromkeys(costs, 0.0)
    while clock.now < 300:
        for domain, cost_s in costs.items():
            if not shares.rest_s(domain):
                clock.now += cost_s
                spent[domain] += cost_s
                shares.charge(domain, cost_s)
    cheap_s = sum(spent_s for domain, spent_s in spent.items() if costs[domain] == CHEAP_S)
    assert cheap_s > 0.65 * clock.now


def test_a_domain_alone_and_sane_pages_never_rest() -> None:
    """Lets no domain rest that is alone, or whose pages are normal, however many there are."""
    shares = Shares(Clock())
    for _ in range(100):
        shares.charge("alone.example", 1)
    assert not shares.rest_s("alone.example")
    for number in range(1_000):
        shares.charge(f"{number % 10}.example", FREE_S)
    assert not any(shares.rest_s(f"{number}.example") for number in range(10))


def test_a_rest_has_an_end() -> None:
    """No longer than five minutes, whatever a page took; then the domain is forgotten."""
    clock = Clock(now=0.0)
    shares = Shares(clock)
    shares.charge("other.example", CHEAP_S)
    shares.charge("dear.example", 10_000)
    assert shares.rest_s("dear.example") == LONGEST_REST_S
    clock.now = LONGEST_REST_S + 1
    assert not shares.rest_s("dear.example")
    shares.charge("third.example", 10_000)
    assert shares.rest_s("third.example")
