"""Pending news of proxies: gathered, in order, and bounded."""

from __future__ import annotations

import pytest

from crawling.egress.notes import MOST_AT_ONCE, USER_FOR_S, Notes
from crawlstream_frontier.proxy_reports import REFUSED, ProxyOutcome, ProxyRest


def test_what_came_of_a_proxy_is_told_as_one() -> None:
    """Failures before an answer are no longer in a row; the latest two sites are reported."""
    notes = Notes()
    notes.failed("p", at_once=True)
    notes.lost("p", "x")
    for site in ("a", "b", "a", "c"):
        notes.came_through("p", site, ms=10, is_refusal=site == "b")
    for site in ("y", "y", "z"):
        notes.lost("p", site)
    notes.failed("p", at_once=False)
    assert notes.take().outcomes == {
        "p": ProxyOutcome(
            answers=4,
            refused=1,
            path=4,
            failed=2,
            in_row=1,
            total_ms=40,
            through=["a", "c"],
            lost=["y", "z"],
        )
    }
    assert notes.take().outcomes == {}


def test_the_latest_of_a_pair_is_told() -> None:
    """A rest, or that it is over."""
    notes = Notes()
    rest = ProxyRest("p", "a", 1_000, REFUSED)
    notes.rest(rest)
    notes.answered("p", "b")
    notes.answered("p", "a")
    notes.rest(ProxyRest("p", "b", 1_000, 0))
    report = notes.take()
    assert (report.rests, report.answers) == ([ProxyRest("p", "b", 1_000, 0)], [("p", "a")])


def test_much_is_told_in_parts_and_too_much_is_forgotten() -> None:
    """There is something to report until the last part is taken."""
    notes = Notes()
    for number in range(10_001):
        notes.rest(ProxyRest("p", f"s{number}", 1_000, 0))
    taken = list[ProxyRest]()
    while notes.is_waiting.is_set():
        part = notes.take().rests
        assert len(part) <= MOST_AT_ONCE
        taken += part
    assert [rest.site for rest in taken] == [f"s{number}" for number in range(1, 10_001)]


def test_who_has_used_a_proxy_lately_is_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first use is news."""
    now = [1_000.0]
    monkeypatch.setattr("crawling.egress.notes.time.monotonic", lambda: now[0])
    notes = Notes()
    states = [notes.is_user]
    notes.used()
    states.append(notes.is_user)
    now[0] += USER_FOR_S
    assert [*states, notes.is_user] == [False, True, False]
    assert notes.is_waiting.is_set()
