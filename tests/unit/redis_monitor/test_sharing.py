"""Partitions and the redis-monitors that look after them."""

from __future__ import annotations

from collections import Counter

import pytest

from redis_monitor.sharing import CARERS, shares

NAMES = [f"redis-monitor:m{number}" for number in range(5)]


@pytest.mark.parametrize("living", range(1, 6))
def test_each_partition_has_two_of_those_that_live(living: int) -> None:
    """Gives each partition two of the running monitors, evenly, or the only one."""
    shared = shares(NAMES[:living], 64)
    carers = Counter(p for ours in shared.values() for p in ours)
    assert carers == dict.fromkeys(range(64), min(living, CARERS))
    assert all(ours for ours in shared.values())


def test_the_death_of_one_moves_only_what_it_had() -> None:
    """Everybody keeps what was theirs, and each partition of the dead one had another."""
    before, after = shares(NAMES, 64), shares(NAMES[1:], 64)
    lost = before[NAMES[0]]
    for name in NAMES[1:]:
        assert before[name] <= after[name]
        assert after[name] - before[name] <= lost
    assert lost <= frozenset().union(*(before[name] for name in NAMES[1:]))
