"""Holds of several partitions of the frontier: one set of slots, and to each its own report."""

from __future__ import annotations

import pytest

from crawling.lease.expired import GrantExpired
from crawling.lease.last_contact import FENCE_S
from crawling.lease.leases import Leases
from crawling.page.page import Page, Phase
from crawlstream.model.effects import Outcome
from support.crawler.holds import Clock, hold


@pytest.fixture
def clock() -> Clock:
    """Starts at 100 s."""
    return Clock()


@pytest.fixture
def holds(clock: Clock) -> Leases:
    """A process with four slots."""
    return Leases(4, lambda: None, clock)


def granted(holds: Leases, partition: int, number: int = 1) -> Page:
    """A page that a partition has granted, which was heard of then."""
    page = holds.admit(hold(number, partition=partition))
    holds.heard(partition, page.admitted_at, 1)
    return page


def test_the_same_token_of_two_partitions_is_two_holds(holds: Leases) -> None:
    """Each is told of its own."""
    here, there = granted(holds, 0), granted(holds, 2)
    assert here.token == there.token
    holds.release(there)
    assert (holds.of(0).owes, holds.of(2).owes) == (False, True)
    owed = holds.of(2).take_owed()
    assert [end.token for end in owed.ends] == [there.token]
    holds.told(2, owed, stale=())
    assert (list(holds.of(0).alive()), list(holds.of(2).alive())) == ([here.token], [])
    assert here.is_open


def test_slots_are_shared(holds: Leases) -> None:
    """What one partition grants is not asked of another, nor is what it is being asked for."""
    granted(holds, 0)
    assert holds.room() == 3
    holds.reserve(2)
    assert holds.room() == 1
    holds.reserve(-2)
    granted(holds, 1)
    assert (holds.room(), len(holds)) == (2, 2)


def test_a_partition_that_is_silent_stops_its_own_pages(holds: Leases, clock: Clock) -> None:
    """Those of the others may leave."""
    granted(holds, 0)
    clock.now += FENCE_S
    silent = holds.admit(hold(2, partition=0, issued_at=clock.now))
    spoken = holds.admit(hold(2, partition=1, issued_at=clock.now))
    holds.heard(1, clock.now, 7)
    holds.set_out(spoken, spoken.hold.entry.url)
    with pytest.raises(GrantExpired):
        holds.set_out(silent, silent.hold.entry.url)
    assert holds.hears
    clock.now += FENCE_S
    assert not holds.hears


def test_a_partition_that_was_restarted_has_its_own_pages_given_back(
    holds: Leases, clock: Clock
) -> None:
    """Epochs of two partitions have nothing to do with each other."""
    here, there = granted(holds, 0), granted(holds, 1)
    assert holds.heard(0, clock.now, 1)
    assert not holds.heard(1, clock.now, 2)
    assert (here.phase, there.phase) == (Phase.WAITING, Phase.ENDED)
    assert (holds.of(0).owes, holds.of(1).owes) == (False, True)


def test_what_is_crowded_is_one_partition(holds: Leases) -> None:
    """A page of another one ends as always; so it does where it is stale in one of them."""
    here, there = granted(holds, 0), granted(holds, 1)
    holds.of(0).is_crowded = True
    holds.settle(there, Outcome.DONE, "2xx")
    assert [settle.token for settle in holds.of(1).take_owed().settles] == [there.token]
    assert holds.lose(1, [here.token]) == []
    assert here.is_open
