"""Priorities of the last band of a domain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlstream_frontier.waste.last_band import LOWEST, is_last, last_of, lifted

PRIORITIES = st.integers(LOWEST, 8_000)


@given(PRIORITIES, PRIORITIES)
def test_the_last_band_is_below_all_other_priorities_and_keeps_their_order(a: int, b: int) -> None:
    """The frontier can order what is within 8 000."""
    assert is_last(last_of(a))
    assert not is_last(b)
    assert -8_000 <= last_of(a) < LOWEST
    assert a > b or last_of(a) <= last_of(b)


@pytest.mark.parametrize("own", [0, 1, 100, -40, -100, -3000, 7000])
def test_an_entry_of_the_last_band_has_a_priority_of_its_own(own: int) -> None:
    """Pages that it leads to are ordered by that, to the next hundred."""
    assert abs(lifted(last_of(own)) - own) <= 50
    assert lifted(own) == own


def test_an_entry_of_the_last_band_stays_there_when_it_is_retried() -> None:
    """Each of up to twenty retries lowers the priority by 10."""
    assert is_last(last_of(8_000) - 200)
