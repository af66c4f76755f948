"""Holds and word from Redis: what has not left goes nowhere without it."""

from __future__ import annotations

import pytest

from crawling.lease.expired import GrantExpired
from crawling.lease.last_contact import WORD_BY_S
from crawling.lease.leases import Leases
from crawling.page.page import Phase
from support.crawler.holds import Clock, hold


@pytest.fixture
def clock() -> Clock:
    """Starts at 100 s."""
    return Clock()


@pytest.fixture
def holds(clock: Clock) -> Leases:
    """A process with four slots."""
    return Leases(4, lambda: None, clock)


def test_a_connection_that_took_long_is_written_to_only_with_word_from_redis(
    holds: Leases, clock: Clock
) -> None:
    """Redis may have been restarted, and know nothing of the grant, since it was last heard of."""
    slow, silent = holds.admit(hold(1)), holds.admit(hold(2))
    holds.set_out(slow, slow.hold.entry.url)
    holds.set_out(silent, silent.hold.entry.url)
    clock.now += 5
    holds.heard(0, clock.now - WORD_BY_S / 2, 1)
    holds.depart(slow)
    clock.now += WORD_BY_S / 2
    with pytest.raises(GrantExpired):
        holds.depart(silent)


def test_a_redis_that_was_restarted_takes_back_what_has_not_left(
    holds: Leases, clock: Clock
) -> None:
    """Whichever call hears of it: only what was sent goes on."""
    assert holds.heard(0, clock.now, 1)
    sent, connecting = holds.admit(hold(1)), holds.admit(hold(2))
    holds.set_out(sent, sent.hold.entry.url)
    holds.depart(sent)
    holds.set_out(connecting, connecting.hold.entry.url)
    assert not holds.heard(0, clock.now, 2)
    with pytest.raises(GrantExpired):
        holds.depart(connecting)
    assert sent.phase is Phase.SENT
    assert [release.token for release in holds.of(0).take_owed().releases] == ["1-2"]
    assert holds.heard(0, clock.now, 2)


def test_while_something_may_leave_there_must_be_word(holds: Leases) -> None:
    """From its lease to its departure, or its end."""
    may_leave = [holds.slots.unsent]
    first, second = holds.admit(hold(1)), holds.admit(hold(2))
    holds.set_out(first, first.hold.entry.url)
    holds.release(second)
    may_leave.append(holds.slots.unsent)
    holds.depart(first)
    may_leave.append(holds.slots.unsent)
    assert may_leave == [False, True, False]
