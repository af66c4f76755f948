"""Requests in windows: a rule counts in its time, and what scripts request counts by page."""

from __future__ import annotations

from dataclasses import replace

from chaos.laws.good_facts import GOOD, STRIKE, visit, visited
from crawlstream_chaos.facts.facts import (
    HostRule,
)
from crawlstream_chaos.laws.auditor import audit
from crawlstream_cli.demo.access_log import LoggedRequest


def test_a_rule_counts_for_windows_within_its_time() -> None:
    """More requests are allowed before the rule is in force, and after it."""
    rules = [
        HostRule(host="127.0.0.1", hits=2, window_s=1),
        HostRule(host="127.0.0.1", hits=1, window_s=1, since=5_000, until=9_000),
    ]

    def overruns(*times: float) -> list[str]:
        facts = replace(visited(*times)(GOOD), rules=rules)
        return [violation.what for violation in audit(facts)]

    assert not overruns(0, 100, 4_990, 5_000, 8_500, 9_000)
    assert "2 requests within 0.1000 s, where 1" in overruns(6_000, 6_100)[0]
    assert "3 requests within 0.2000 s, where 2" in overruns(0, 100, 200)[0]


def test_a_window_may_be_a_tenth_short_only_where_the_clock_is_set() -> None:
    """The gain of the frontier clock by a step counts only for windows with a step."""
    step = replace(STRIKE, fault="step-clock", at=2_000, seconds=1)

    def overruns(*times: float) -> bool:
        return bool(audit(replace(visited(*times)(GOOD), strikes=[STRIKE, step])))

    assert not overruns(1_500, 2_401)
    assert overruns(1_500, 2_398)
    assert overruns(900, 1_850)
    assert overruns(3_001, 3_950)


def test_what_scripts_ask_for_counts_by_page_and_not_in_windows() -> None:
    """Each visit of a page may bring its share, and nothing comes before its page."""

    def broken(*visits: LoggedRequest) -> list[str]:
        return [v.law for v in audit(replace(GOOD, render=2, visits=visits))]

    def further(at: float, number: int) -> LoggedRequest:
        return visit(at, f"/further/{number}/1")

    assert not broken(visit(0), further(1, 0), further(2, 1), visit(1_000), further(1_001, 0))
    assert broken(further(1, 0), visit(2)) == ["a page brings what it may"]
    assert broken(visit(0), further(1, 0), visit(900)) == ["no window is overrun"]
