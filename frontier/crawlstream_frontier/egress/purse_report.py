"""Purses as commands and REST show them: amounts as texts, days as dates."""

from __future__ import annotations

import time
from typing import Any

from crawlstream.model.words.price import Price
from crawlstream_frontier.egress.purse import PurseDetails, PurseState

_DAY_S = 86_400


def today() -> int:
    """Return the day from 1970, in UTC."""
    return int(time.time() / _DAY_S)


def date_of(day: int) -> str:
    """Return a day from 1970 as ``2026-11-29``."""
    return time.strftime("%Y-%m-%d", time.gmtime(day * _DAY_S))


def latest(days: int) -> range:
    """Return the latest days, counted from 1970, until today."""
    return range(today() - days + 1, today() + 1)


def amount_of(state: PurseState, millionths: int) -> str:
    """Return an amount in the currency of a purse."""
    return str(Price(state.purse.currency, millionths))


def spent_by_date(state: PurseState, days: int) -> dict[str, str]:
    """Return what was spent or reserved on each of the latest days, by their dates."""
    first = latest(days).start
    found = sorted((day, sum_) for day, sum_ in state.days.items() if day >= first)
    return {date_of(day): amount_of(state, sum_) for day, sum_ in found}


def purse_json(state: PurseState) -> dict[str, Any]:
    """Return a purse with its sums as JSON."""
    purse = state.purse
    optional = {"total": purse.total, "max_price": purse.max_price}
    return {
        "purse": purse.name,
        "currency": purse.currency,
        "day": amount_of(state, purse.day),
        **{
            name: None if limit is None else amount_of(state, limit)
            for name, limit in optional.items()
        },
        "apps": list(purse.apps),
        "domains": list(purse.domains),
        "closed": state.is_closed,
        "spent": amount_of(state, state.total),
        "spent_today": amount_of(state, state.days.get(today(), 0)),
        "charged": amount_of(state, state.charged),
        "unsettled": amount_of(state, state.unsettled),
        "overcharged": amount_of(state, state.overcharged),
        "pages": state.pages,
        "under_way": state.open,
        "distrusted_sites": state.distrusted,
    }


def report_json(state: PurseState, details: PurseDetails, days: int) -> dict[str, Any]:
    """Return the same with the latest days, open payments, charges and origins not paid."""
    return {
        **purse_json(state),
        "days": spent_by_date(state, days),
        "reservations": [
            {"id": each.page, "price": amount_of(state, each.millionths), "since": each.since}
            for each in details.reservations
        ],
        "distrusted": list(details.distrusted),
        "origins": [
            {"origin": origin, "charged": amount_of(state, sum_)}
            for origin, sum_ in details.charges.items()
        ],
    }
