"""How soon a worker calls Redis again."""

from __future__ import annotations

from crawling.lease.pace import QUICKEST_S, SLOWEST_S, TIMES, Pace


def test_a_quick_redis_is_called_often() -> None:
    """Calls a quick Redis often: before the first answer, and while calls take little."""
    pace = Pace()
    assert pace.pause_s == QUICKEST_S
    pace.answered(0.001)
    assert pace.pause_s == QUICKEST_S


def test_a_slow_redis_is_called_less_often() -> None:
    """The pause grows with what calls take, up to a bound."""
    pace = Pace()
    pace.answered(0.005)
    assert pace.pause_s == TIMES * 0.005
    pace.answered(1.0)
    assert pace.pause_s == TIMES * 0.005, "one that carried much, or waited for this process"
    for _ in range(20):
        pace.answered(1.0)
    assert pace.pause_s == SLOWEST_S


def test_a_redis_that_is_quick_again_is_called_often_again() -> None:
    """A single quick answer is enough: a page that waits is never quick."""
    pace = Pace()
    for _ in range(20):
        pace.answered(0.05)
    pace.answered(0.001)
    assert pace.pause_s == QUICKEST_S
