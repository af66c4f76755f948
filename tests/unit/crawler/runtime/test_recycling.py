"""Lifetime: a worker ends for its memory or its age, not together with the others."""

from __future__ import annotations

from crawling.runtime.recycling import Lifetime, resident_bytes


class Machine:
    """A clock and a memory that a test sets."""

    now = 100.0
    resident = 500

    def lifetime(self, max_bytes: int, max_age_s: float) -> Lifetime:
        """Limits that are judged by this machine."""
        return Lifetime(max_bytes, max_age_s, lambda: self.now, lambda: self.resident)


def test_a_limit_passed_is_named_and_zero_is_none() -> None:
    """Memory above the limit, an age around it; without limits a process lives on."""
    machine = Machine()
    limited, free = machine.lifetime(500, 1000), machine.lifetime(0, 0)
    assert (limited.over(), free.over()) == ("", "")
    machine.resident = 501
    assert limited.over() == "memory"
    machine.resident, machine.now = 0, 999.0
    assert limited.over() == ""
    machine.now = 1201.0
    assert (limited.over(), free.over()) == ("age", "")


def test_workers_that_started_together_end_apart() -> None:
    """Ages vary by a tenth."""
    machine = Machine()
    lives = [machine.lifetime(0, 1000) for _ in range(200)]
    ended = []
    for machine.now in (999.0, 1050.0, 1150.0, 1201.0):
        ended.append(sum(life.over() == "age" for life in lives))
    assert ended[0] == 0 < ended[1] < ended[2] < ended[3] == 200


def test_the_memory_of_this_process_is_known() -> None:
    """Reads the memory of this process in bytes."""
    assert 10_000_000 < resident_bytes() < 10_000_000_000
