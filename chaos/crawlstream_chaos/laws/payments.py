"""The laws of money, by the site's log of what it has charged and the purse in Redis.

Charged is at most what is reserved, and that at most the budget, at every moment. Redis may lose
what it wrote last; its purse is closed then, until its operator has compared it with the bill.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from crawlstream.model.words.price import price_in
from crawlstream_chaos.facts.facts import RESULTS, Facts, Strike, TopicRecord
from crawlstream_chaos.facts.spending import PurseSample, Spending, charged

_PAYMENT_REQUIRED = 402
_KNOWN_MS = 20_000
"""A page that was not paid comes at most so long after the reason."""
_RESTARTS = frozenset({"kill-redis", "power-cut"})
"""Faults after which Redis may not know its last moments, and purses are closed."""


def shown_status(facts: Facts, record: TopicRecord) -> int:
    """Return the status that a result counts with: a page may come unpaid, see :func:`paid_for`."""
    status: int = record.value["status_code"]
    prices = facts.spending.prices if facts.spending else {}
    return 200 if status == _PAYMENT_REQUIRED and record.value["url"] in prices else status


def covered(facts: Facts) -> Iterator[str]:
    """Charges of sites up to a moment are reserved in the purse at that moment.

    A closed purse need not know it: Redis was restarted. No more is missing there for good than
    what was in flight when it was.
    """
    if not (spending := facts.spending):
        return
    times, sums = _bill(facts)
    for sample in spending.samples:
        paid = sums[bisect_right(times, sample.at)]
        known = sample.state.total + sample.missing
        if paid > known and not sample.state.is_closed:
            yield f"{paid} is charged, and {known} is reserved, after {sample.at:.0f} ms"
    in_flight = sum(each.in_flight for each in facts.strikes if each.fault in _RESTARTS)
    if spending.last.missing > in_flight * max(spending.prices.values()):
        yield f"{spending.last.missing} is missing, and {in_flight} pages were in flight"


def within_budget(facts: Facts) -> Iterator[str]:
    """At no moment more is reserved, or charged, than the budget."""
    if not (spending := facts.spending):
        return
    for sample in spending.samples:
        if sample.state.total > spending.budget - sample.missing:
            yield f"{sample.state.total} of {spending.budget - sample.missing} is reserved"
    if (bill := _bill(facts)[1][-1]) > spending.budget:
        yield f"{bill} of {spending.budget} is charged"


def booked(facts: Facts) -> Iterator[str]:
    """After all is quiet each charge is booked, but those of the pages that are listed as open.

    Pages are open only where a fault explains it, by how many were in flight.
    """
    if not (spending := facts.spending):
        return
    last, bill = spending.last, _bill(facts)[1][-1]
    listed = last.state.unsettled + sum(each.millionths for each in spending.open)
    if last.state.charged > bill:
        yield f"{last.state.charged} is booked as charged, and {bill} was charged"
    if bill - last.state.charged > listed + last.missing:
        yield f"{bill} was charged: {last.state.charged} is booked, {listed} is listed as open"
    if last.state.overcharged:
        yield f"{last.state.overcharged} is booked as charged beyond its price"
    explained = sum(strike.in_flight for strike in facts.strikes)
    if len(spending.open) > explained:
        yield f"{len(spending.open)} payments are open, and faults explain {explained}"


def paid_once(facts: Facts) -> Iterator[str]:
    """No page is charged again but for a fault before it, and no more than were in flight there."""
    strikes = sorted(facts.strikes, key=lambda strike: strike.at)
    at = [strike.at for strike in strikes]
    allowed = [0, *accumulate(strike.in_flight for strike in strikes)]
    seen: set[str] = set()
    counted = 0
    for visit in sorted(facts.visits, key=lambda visit: visit.mono):
        if not visit.charged:
            continue
        place = visit.host + visit.path
        if place in seen:
            counted += 1
            so_far = allowed[bisect_right(at, visit.mono)]
            if counted > so_far:
                yield f"{place} is charged again, repeat {counted}; faults explain {so_far}"
        seen.add(place)


def paid_for(facts: Facts) -> Iterator[str]:
    """Each page that costs something is paid and says so, or its purse could not pay it then."""
    if not (spending := facts.spending):
        return
    refusing = _refusing(facts.strikes, spending.samples)
    for record in facts.records:
        if record.topic != RESULTS or record.value["url"] not in spending.prices:
            continue
        value, price = record.value, spending.prices[record.value["url"]]
        payment = value.get("payment") or {}
        if value["status_code"] != _PAYMENT_REQUIRED:
            receipt = price_in(payment.get("charged") or "")
            if receipt is None or receipt.millionths != price:
                yield f"{value['url']}: {payment} for a price of {price}"
        elif not _could_refuse(spending, record.at, price, refusing):
            yield f"{value['url']} is not paid, and its purse could"


def _could_refuse(
    spending: Spending, at: float, price: int, refusing: Sequence[tuple[float, float]]
) -> bool:
    is_empty = any(
        sample.state.total + price > spending.budget - sample.missing
        for sample in spending.samples
        if sample.at <= at + _KNOWN_MS
    )
    return is_empty or any(since <= at <= until for since, until in refusing)


def _refusing(
    strikes: Sequence[Strike], samples: Sequence[PurseSample]
) -> Sequence[tuple[float, float]]:
    """Return the times in which pages may come unpaid because of Redis."""
    found = []
    for strike in strikes:
        if strike.fault.endswith("-redis") or strike.fault in _RESTARTS:
            over = strike.at + strike.seconds * 1000
            back = (s.at for s in samples if s.at >= over and not s.state.is_closed)
            found.append((strike.at, next(back, float("inf")) + _KNOWN_MS))
    return found


def _bill(facts: Facts) -> tuple[Sequence[float], Sequence[int]]:
    """Return the times of all charges, and their sums: of none, of the first, and so on."""
    paid = sorted((visit.mono, charged(visit)) for visit in facts.visits if visit.charged)
    return [at for at, _ in paid], [0, *accumulate(amount for _, amount in paid)]


LAWS: Mapping[str, Callable[[Facts], Iterator[str]]] = {
    "nothing is charged without a reservation": covered,
    "no budget is exceeded": within_budget,
    "each charge is booked once": booked,
    "no page is paid twice": paid_once,
    "a page is paid where its purse can": paid_for,
}
