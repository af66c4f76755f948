"""Rules in a word, and the referee of windows."""

from __future__ import annotations

from crawlstream.model.throttle_table import ThrottleRule
from support.frontier.bench import Worker


def spaced(hits: int, window_s: float, concurrency: int = 100) -> ThrottleRule:
    """A moderated rule."""
    return ThrottleRule(hits=hits, window_s=window_s, concurrency=concurrency)


def bursts(hits: int, window_s: float, concurrency: int = 1_000) -> ThrottleRule:
    """An unmoderated rule."""
    return ThrottleRule(hits=hits, window_s=window_s, moderated=False, concurrency=concurrency)


async def due_ms(worker: Worker) -> int:
    """How long nothing is allowed."""
    answer = await worker.exchange(want=1)
    assert not answer.leases, "allowed now"
    assert answer.next_due_ms is not None
    return answer.next_due_ms


def check_windows(sends: list[int], rule: ThrottleRule) -> None:
    """No window of the rule holds more sends than its hits."""
    window, hits, times = int(rule.window_s * 1000), rule.effective_hits, sorted(sends)
    for first, beyond in zip(times, times[hits:], strict=False):
        assert beyond - first >= window, (beyond - first, window, hits)
