"""The list of problems of a cluster."""

from __future__ import annotations

from typing import Any

from crawlstream.model.process import Process
from crawlstream.model.state import FrontierState
from crawlstream.model.words.condition import IF_MISSPELT
from crawlstream_frontier.partitions.problem import problems_of

_COUNTS: dict[str, Any] = dict.fromkeys(
    ("life", "clock_ms", "crawls", "queued", "delayed", "held", "workers", "outbox", "actions"), 0
)
_MONITORS = [Process(kind="kafka-monitor"), Process(kind="redis-monitor")]
_THERE = [*_MONITORS, Process(kind="crawler", spider="link")]


def _codes(state: FrontierState, processes: list[Process]) -> set[str]:
    return {one.code for one in problems_of(state, processes)}


def test_the_cluster_says_what_is_wrong() -> None:
    """Each defect of its counters and processes has a code and a sentence; none has none."""
    fine = FrontierState(rules_known=True, backlog={"link": {"domains": 3}}, **_COUNTS)
    assert problems_of(fine, _THERE) == []
    backlog = {"link": {"domains": 3}, "my shop": {"domains": 1}, "idle": {"domains": 0}}
    bad = FrontierState(rules_known=False, is_full=True, residual=2, backlog=backlog, **_COUNTS)
    assert _codes(bad, _THERE) == {"no_crawler:my shop", "no_rules", "redis_full", "ledger"}
    lacking = problems_of(bad, _THERE)[0]
    assert lacking.text.endswith(f"pages of 1 domain wait. {IF_MISSPELT}")
    assert lacking.command == "./crawlstream up -d --spider 'my shop'=1"
    assert _codes(fine, []) == {"no_kafka_monitor", "no_redis_monitor", "no_crawler:link"}


def test_nobody_is_woken_for_what_only_looks_odd() -> None:
    """A cluster at rest without crawlers, and one that is being updated, are seen, not told."""
    idle = FrontierState(rules_known=True, **_COUNTS)
    mixed = [*_MONITORS, Process(kind="rest", version="0.0.1")]
    found = problems_of(idle, mixed)
    assert [(one.code, one.is_notified) for one in found] == [
        ("no_crawler", False),
        ("versions", False),
    ]
