"""A worker calls partitions in turn, with all slots for each, and none for nothing."""

from __future__ import annotations

import pytest

from crawling.lease.pace import QUICKEST_S, SLOWEST_S
from support.crawler.divided.worker import DividedWorker

SIXTEEN = 16


@pytest.mark.parametrize(("slots", "takes_s"), [(1, 0.2), (16, 1.0), (32, 0.5)])
def test_each_partition_has_its_share(
    slots: int, takes_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gives each partition its share, also with fewer slots than partitions."""
    worker = DividedWorker(SIXTEEN, slots=slots, takes_s=takes_s, monkeypatch=monkeypatch)
    worker.run(40)
    granted = [partition.granted for partition in worker.partitions]
    mean = sum(granted) / SIXTEEN
    assert sum(granted) > 0.7 * 40 * slots / takes_s
    assert min(granted) > 0.6 * mean
    assert max(granted) < 1.7 * mean


def test_one_that_does_not_answer_keeps_no_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """All free slots were requested from it; the others have that after a moment."""
    worker = DividedWorker(3, slots=8, takes_s=0.2, monkeypatch=monkeypatch)
    worker.partitions[0].hangs = True
    worker.run(10)
    others = [partition.granted for partition in worker.partitions[1:]]
    assert min(others) > 0.3 * 10 * 8 / 0.2


def test_many_that_are_busy_are_called_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them as often as one alone, sixteen at the slowest pace there is."""
    for number, pause_s in ((1, QUICKEST_S), (2, QUICKEST_S), (SIXTEEN, SLOWEST_S)):
        worker = DividedWorker(number, slots=64, takes_s=0.3, monkeypatch=monkeypatch)
        worker.run(5)
        calls = [partition.calls for partition in worker.partitions]
        assert max(calls) <= 1.2 * 5 / pause_s


def test_one_that_has_nothing_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls an empty partition twice in five seconds only; the busy one keeps its pace."""
    worker = DividedWorker(SIXTEEN, slots=2, takes_s=0.2, monkeypatch=monkeypatch)
    for partition in worker.partitions[1:]:
        partition.waiting = 0
    worker.run(30)
    assert max(partition.calls for partition in worker.partitions[1:]) <= 2 * 30 / 5 + 3
    assert worker.partitions[0].granted > 0.7 * 30 * 2 / 0.2


def test_one_that_wakes_the_worker_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its call is the oldest, so the next slot is for it, busy as the others are."""
    worker = DividedWorker(3, slots=2, takes_s=0.1, monkeypatch=monkeypatch)
    late = worker.partitions[2]
    late.waiting = 0

    def wake() -> None:
        assert late.granted == 0
        late.waiting = 1
        worker.sleepers[2].wake()

    def check() -> None:
        assert late.granted == 1

    worker.run(7, wake, 0.15, check)
