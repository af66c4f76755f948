"""Observations of a purse from which the crawls of a round pay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crawlstream.model.words.price import price_in
from crawlstream_cli.demo.access_log import LoggedRequest
from crawlstream_frontier.egress.purse import OpenPayment, PurseState


def charged(visit: LoggedRequest) -> int:
    """Return what a visit has cost, in millionths."""
    price = price_in(visit.charged)
    return price.millionths if price else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PurseSample:
    """The purse at a moment."""

    at: float
    """Before it was read."""
    state: PurseState
    missing: int
    """Charged money that Redis has lost, as its operator knew by then; the budget is less by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Sums that were reserved and booked during a round, in millionths."""

    budget: int
    prices: Mapping[str, int]
    """URL of each page that costs something -> its price."""
    samples: Sequence[PurseSample]
    """In the order of their times, the last one after all crawls had ended."""
    open: Sequence[OpenPayment]
    """Reservations that were not settled then."""

    @property
    def last(self) -> PurseSample:
        """The purse after all crawls had ended."""
        return self.samples[-1]
