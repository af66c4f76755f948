"""Leases of several partitions of the frontier: one set of slots, and to each its own report."""

from __future__ import annotations

import pytest

from crawling.lease.expired import GrantExpired
from crawling.lease.last_contact import FENCE_S
from crawling.lease.leases import Leases
from crawling.page.page import Page, Phase
from crawlstream.model.effects import Outcome
from support.crawler.leases import Clock, lease


@pytest.fixture
def clock() -> Clock:
    """Starts at 100 s."""
    return Clock()


@pytest.fixture
def leases(clock: Clock) -> Leases:
    """A process with four slots."""
    return Leases(4, lambda: None, clock)


def granted(leases: Leases, partition: int, number: int = 1) -> Page:
    """A page that a partition has granted, which answered then."""
    page = leases.admit(lease(number, partition=partition))
    leases.note_answer(partition, page.admitted_at, 1)
    return page


def test_the_same_token_of_two_partitions_is_two_holds(leases: Leases) -> None:
    """Each gets its own report."""
    here, there = granted(leases, 0), granted(leases, 2)
    assert here.token == there.token
    leases.release(there)
    assert (leases.of(0).has_report, leases.of(2).has_report) == (False, True)
    owed = leases.of(2).take_report()
    assert [end.token for end in owed.ends] == [there.token]
    leases.reported(2, owed, stale=())
    assert (list(leases.of(0).alive()), list(leases.of(2).alive())) == ([here.token], [])
    assert here.is_open


def test_slots_are_shared(leases: Leases) -> None:
    """Slots requested from, or granted by, one partition are not requested from another."""
    granted(leases, 0)
    assert leases.room() == 3
    leases.reserve(2)
    assert leases.room() == 1
    leases.reserve(-2)
    granted(leases, 1)
    assert (leases.room(), len(leases)) == (2, 2)


def test_a_partition_that_is_silent_stops_its_own_pages(leases: Leases, clock: Clock) -> None:
    """Pages of the others may leave."""
    granted(leases, 0)
    clock.now += FENCE_S
    silent = leases.admit(lease(2, partition=0, issued_at=clock.now))
    spoken = leases.admit(lease(2, partition=1, issued_at=clock.now))
    leases.note_answer(1, clock.now, 7)
    leases.set_out(spoken, spoken.lease.entry.url)
    with pytest.raises(GrantExpired):
        leases.set_out(silent, silent.lease.entry.url)
    assert leases.is_in_contact
    clock.now += FENCE_S
    assert not leases.is_in_contact


def test_a_partition_that_was_restarted_has_its_own_pages_given_back(
    leases: Leases, clock: Clock
) -> None:
    """Epochs of two partitions have nothing to do with each other."""
    here, there = granted(leases, 0), granted(leases, 1)
    assert leases.note_answer(0, clock.now, 1)
    assert not leases.note_answer(1, clock.now, 2)
    assert (here.phase, there.phase) == (Phase.WAITING, Phase.ENDED)
    assert (leases.of(0).has_report, leases.of(1).has_report) == (False, True)


def test_what_is_crowded_is_one_partition(leases: Leases) -> None:
    """A page of another one ends as always; so it does where it is stale in one of them."""
    here, there = granted(leases, 0), granted(leases, 1)
    leases.of(0).is_crowded = True
    leases.settle(there, Outcome.DONE, "2xx")
    assert [settle.token for settle in leases.of(1).take_report().settles] == [there.token]
    assert leases.lose(1, [here.token]) == []
    assert here.is_open
