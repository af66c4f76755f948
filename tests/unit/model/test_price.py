"""Prices: read exactly, or not at all."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlstream.model.words.price import LARGEST, Price, price_in


@pytest.mark.parametrize(
    ("text", "millionths", "written"),
    [
        ("USD 0.01", 10_000, "USD 0.01"),
        ("USD 0", 0, "USD 0.00"),
        ("EUR 000000001.5", 1_500_000, "EUR 1.50"),
        ("JPY 0.000001", 1, "JPY 0.000001"),
        ("USD 999999999.999999", LARGEST, "USD 999999999.999999"),
    ],
)
def test_a_price_is_whole_millionths(text: str, millionths: int, written: str) -> None:
    """Rounds no price: a written price reads back equal."""
    price = price_in(text)
    assert price == Price(text[:3], millionths)
    assert str(price) == written
    assert price_in(written) == price


@pytest.mark.parametrize(
    "text",
    [
        *("", "USD", "USD ", "0.01", "0.01 USD", "usd 0.01", "USDT 0.01", "US 0.01", "USD0.01"),
        *("USD  0.01", "USD 0.01 ", " USD 0.01", "USD 0.01\n", "USD -0.01", "USD +1", "USD 1e3"),
        *("USD .5", "USD 1.", "USD 1,5", "USD 1_0", "USD 0.0000001", "USD 1234567890", "USD NaN"),
        *("USD 0x1", "USD \u0661", "USD 1;q=1", "USD 1, USD 2", "\u212aSD 1"),
    ],
)
def test_anything_else_is_no_price(text: str) -> None:
    """Rejects other texts as prices, such as those that Python's numbers accept."""
    assert price_in(text) is None


@given(st.integers(0, LARGEST))
def test_any_amount_comes_back_exactly(millionths: int) -> None:
    """Writes any amount exactly, with at least two decimals."""
    written = str(Price("USD", millionths))
    assert price_in(written) == ("USD", millionths)
    assert Decimal(written[4:]) == Decimal(millionths).scaleb(-6)
    assert len(written.partition(".")[2]) >= 2
