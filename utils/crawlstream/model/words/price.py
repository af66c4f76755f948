"""Prices of pages, exactly: whole millionths of a currency."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

MILLION = 10**6
LARGEST = 10**15 - 1
"""Millionths of the largest amount that can be written; a sum of 9000 of them is exact in Lua."""

_FORM = re.compile(r"([A-Z]{3}) ([0-9]{1,9})(?:\.([0-9]{1,6}))?")


class Price(NamedTuple):
    """Amount of money in a currency."""

    currency: str
    """Code of three letters, ISO 4217."""
    millionths: int

    def __str__(self) -> str:
        """Return the price as headers have it; money has two decimals at least."""
        whole, part = divmod(self.millionths, MILLION)
        return f"{self.currency} {whole}.{_decimals(part)}"


def price_in(text: str) -> Price | None:
    """Return the price in a header's value, ``USD 0.01``; None for anything else."""
    if (found := _FORM.fullmatch(text)) is None:
        return None
    currency, whole, part = found.groups(default="")
    return Price(currency, int(whole) * MILLION + int(part.ljust(6, "0")))


def amounts(millionths: Mapping[str, int]) -> str:
    """Return sums by currency as one text: ``USD 0.20, EUR 0.01``; empty without any."""
    return ", ".join(str(Price(currency, sum_)) for currency, sum_ in millionths.items())


def _decimals(millionths: int) -> str:
    return f"{millionths:06}".rstrip("0").ljust(2, "0")
