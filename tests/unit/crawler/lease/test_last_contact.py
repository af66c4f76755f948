"""Leases and word from Redis: what has not left goes nowhere without it."""

from __future__ import annotations

import pytest

from crawling.lease.expired import GrantExpired
from crawling.lease.last_contact import CONTACT_WITHIN_S
from crawling.lease.leases import Leases
from crawling.page.page import Phase
from support.crawler.leases import Clock, lease


@pytest.fixture
def clock() -> Clock:
    """Starts at 100 s."""
    return Clock()


@pytest.fixture
def leases(clock: Clock) -> Leases:
    """A process with four slots."""
    return Leases(4, lambda: None, clock)


def test_a_connection_that_took_long_is_written_to_only_with_word_from_redis(
    leases: Leases, clock: Clock
) -> None:
    """Redis may have been restarted, and know nothing of the grant, since its last reply."""
    slow, silent = leases.admit(lease(1)), leases.admit(lease(2))
    leases.set_out(slow, slow.lease.entry.url)
    leases.set_out(silent, silent.lease.entry.url)
    clock.now += 5
    leases.note_answer(0, clock.now - CONTACT_WITHIN_S / 2, 1)
    leases.depart(slow)
    clock.now += CONTACT_WITHIN_S / 2
    with pytest.raises(GrantExpired):
        leases.depart(silent)


def test_a_redis_that_was_restarted_takes_back_what_has_not_left(
    leases: Leases, clock: Clock
) -> None:
    """Whichever call notices it: only sent requests go on."""
    assert leases.note_answer(0, clock.now, 1)
    sent, connecting = leases.admit(lease(1)), leases.admit(lease(2))
    leases.set_out(sent, sent.lease.entry.url)
    leases.depart(sent)
    leases.set_out(connecting, connecting.lease.entry.url)
    assert not leases.note_answer(0, clock.now, 2)
    with pytest.raises(GrantExpired):
        leases.depart(connecting)
    assert sent.phase is Phase.SENT
    assert [release.token for release in leases.of(0).take_report().releases] == ["1-2"]
    assert leases.note_answer(0, clock.now, 2)


def test_while_something_may_leave_there_must_be_word(leases: Leases) -> None:
    """Requires word from Redis from the lease to the departure of a request, or its end."""
    may_leave = [leases.slots.unsent]
    first, second = leases.admit(lease(1)), leases.admit(lease(2))
    leases.set_out(first, first.lease.entry.url)
    leases.release(second)
    may_leave.append(leases.slots.unsent)
    leases.depart(first)
    may_leave.append(leases.slots.unsent)
    assert may_leave == [False, True, False]
