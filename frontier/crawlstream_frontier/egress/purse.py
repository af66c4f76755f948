"""Purses: money of an operator that crawlers may pay for pages, and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

OTHER_ORIGINS = "*"
"""Name of the sum of origins that have none of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """Budgets and limits of a purse, in millionths of its currency."""

    name: str
    currency: str
    day: int
    """Budget of a day, in UTC."""
    total: int | None = None
    """Budget of all days; None: no other limit than that of a day."""
    max_price: int | None = None
    """Highest price of one page; None: the budget of a day."""
    apps: Sequence[str] = ()
    """Applications whose crawls may use it; empty: all."""
    domains: Sequence[str] = ()
    """Registrable domains that may be paid; empty: all."""


class OpenPayment(NamedTuple):
    """Money that was offered with a request, and is not settled."""

    page: str
    """Name of the page: ``id`` of its result."""
    millionths: int
    since: float
    """Unix time."""


class PurseDetails(NamedTuple):
    """Parts of a purse that may be many."""

    reservations: Sequence[OpenPayment]
    """Up to 1000 that are not settled, the oldest first."""
    distrusted: Sequence[str]
    """Origins that have charged more than their price."""
    charges: Mapping[str, int]
    """Up to 1000 origins with what they have charged, in millionths, the largest sums first; all
    others as ``OTHER_ORIGINS``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurseState:
    """Purse with its sums, in millionths."""

    purse: Purse
    total: int
    """Money that is spent or reserved."""
    charged: int
    """Money that sites have charged, by their receipts."""
    unsettled: int
    """Money that counts as spent without a receipt."""
    overcharged: int
    """Money that sites have charged beyond their price."""
    pages: int
    open: int
    """Number of requests that have offered a price and are not settled."""
    distrusted: int
    """Number of origins that have charged more than their price, and are not paid."""
    is_closed: bool
    """True if Redis was restarted, and no operator has adopted the purse since."""
    days: Mapping[int, int] = field(default_factory=dict)
    """Money that is spent or reserved, by the day from 1970."""

    def left(self, day: int) -> Mapping[str, float]:
        """Return the fraction of each budget that is left on a day: ``day`` and ``total``.

        Budgets that the purse does not have, or that are 0, are missing.
        """
        budgets = {"day": self.purse.day, "total": self.purse.total or 0}
        spent = {"day": self.days.get(day, 0), "total": self.total}
        return {
            name: max(1 - spent[name] / budget, 0.0) for name, budget in budgets.items() if budget
        }
