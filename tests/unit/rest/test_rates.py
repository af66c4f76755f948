"""Requests to a domain in each second, and its rule."""

from __future__ import annotations

from crawlstream.model.throttle_table import ThrottleRule
from rest_service.rates import DomainRates

RULE = ThrottleRule(hits=2, window_s=1)
BEGIN = 900_000.0


def test_a_rate_is_what_the_counters_grew_by() -> None:
    """Over a minute, across the end of a quarter; before that there are the means of quarters."""
    rates = DomainRates()
    before = {BEGIN - 900: 900, BEGIN: 100}
    rates.note("a.test", before, RULE, now=BEGIN + 890)
    assert rates.since("a.test", 0) == [(BEGIN - 450, 1.0, None)]
    rates.note("a.test", {BEGIN: 110}, RULE, now=BEGIN + 900)
    rates.note("a.test", {BEGIN: 120, BEGIN + 900: 40}, RULE, now=BEGIN + 920)
    assert rates.since("a.test", BEGIN) == [(BEGIN + 920, 2.0, 2.0)]
    assert rates.since("b.test", 0) == ()


def test_a_while_without_a_look_is_a_gap() -> None:
    """Requests of a time without samples are drawn as their mean, behind a gap."""
    rates = DomainRates()
    for at, count in ((0.0, 0), (30.0, 30), (60.0, 60), (600.0, 60)):
        rates.note("a.test", {BEGIN: count}, RULE, now=BEGIN + at)
    told = [point[1] for point in rates.since("a.test", BEGIN)]
    assert told == [1.0, 1.0, None, 0.0]


def test_domains_that_nobody_looks_at_are_forgotten() -> None:
    """Memory has a bound, in domains and in points."""
    rates = DomainRates()
    for number in range(300):
        rates.note(f"{number}.test", {BEGIN: 0}, RULE, now=BEGIN)
    assert rates.since("0.test", 0) == ()
    for number in range(3000):
        rates.note("a.test", {BEGIN: number}, RULE, now=BEGIN + 5 * number)
    assert len(rates.since("a.test", 0)) <= 721
