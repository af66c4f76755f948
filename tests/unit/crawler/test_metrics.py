"""A crawler counts what the frontier has taken, once, and nothing else."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Any

import pytest
from prometheus_client import REGISTRY

from crawling.lease.pending_report import LeaseReport
from crawling.metrics import Meter
from crawlstream.model.effects import ExchangeResult, Outcome, Release, Requeue, SentRequest, Settle
from crawlstream.model.throttle_table import Reaction, SiteReaction

_numbers = count()


class Counted:
    """A meter under a spider's name of its own, and what it has told."""

    def __init__(self) -> None:
        self.spider = f"metered-{next(_numbers)}"
        self.meter = Meter(self.spider, slots=64)

    def value(self, name: str, **labels: str) -> float:
        """A sample of crawlstream's; 0 if there is none."""
        labels = {"spider": self.spider, **labels}
        return REGISTRY.get_sample_value(f"crawlstream_{name}", labels) or 0.0


@pytest.fixture
def counted() -> Counted:
    """A new one."""
    return Counted()


def answer(
    *, stale: Collection[str] = (), refused: Collection[str] = (), **more: Any
) -> ExchangeResult:
    """Answer of the frontier to an exchange."""
    return ExchangeResult(
        **{"leases": (), "redis_epoch": 1, "next_due_ms": None, "rules_known": True, **more},
        stale=frozenset(stale),
        refused=frozenset(refused),
    )


def done(token: str, body_bytes: int = 0) -> Settle:
    """The end of a page that was delivered."""
    return Settle(token=token, outcome=Outcome.DONE, reason="2xx", body_bytes=body_bytes)


def test_pages_are_counted_by_what_became_of_them(counted: Counted) -> None:
    """Counts pages by outcome, with delivered bytes and reasons of failures."""
    failed = Settle(token="3", outcome=Outcome.FAILED, reason="dns")
    skipped = Settle(token="4", outcome=Outcome.SKIPPED, reason="guard_path")
    counted.meter.exchanged(
        LeaseReport(settles=[done("1", 700), done("2", 300), failed, skipped]), answer(), 0.01
    )
    assert counted.value("skipped_total", reason="guard_path") == 1
    assert counted.value("pages_total", outcome="done") == 2
    assert counted.value("pages_total", outcome="failed") == 1
    assert counted.value("page_bytes_total") == 1000
    assert counted.value("page_failures_total", reason="dns") == 1
    assert counted.value("exchange_seconds_count") == 1


def test_what_the_frontier_has_not_taken_is_not_counted(counted: Counted) -> None:
    """Another worker has a stale page; one whose links have no room is settled again."""
    owed = LeaseReport(settles=[done("1", 10), done("2", 10)])
    counted.meter.exchanged(owed, answer(stale={"1"}, refused={"2"}), 0.01)
    assert counted.value("pages_total", outcome="done") == 0
    assert counted.value("page_bytes_total") == 0
    assert counted.value("pages_returned_total", why="stale") == 1


def test_returns_and_reactions_are_counted(counted: Counted) -> None:
    """Retries, releases; refusals and silences, but no answers."""
    owed = LeaseReport(
        requeues=[Requeue(token="1")],
        releases=[Release(token="2"), Release(token="3")],
        sent=[
            SentRequest("4", 1, received=True, heard=SiteReaction(Reaction.REFUSAL)),
            SentRequest("5", 1, received=True, heard=SiteReaction(Reaction.SILENCE)),
            SentRequest("6", 1, received=True, heard=SiteReaction(Reaction.ANSWER)),
            SentRequest("7", 1),
        ],
    )
    counted.meter.exchanged(owed, answer(), 0.01)
    assert counted.value("pages_returned_total", why="retry") == 1
    assert counted.value("pages_returned_total", why="release") == 2
    assert counted.value("refusals_total", kind="refusal") == 1
    assert counted.value("refusals_total", kind="silence") == 1


def test_a_status_that_is_none_makes_no_series(counted: Counted) -> None:
    """Sites may answer any number; those that HTTP does not know are counted as one."""
    for status in (200, 404, 799, 999):
        counted.meter.response(status, 30)
    counted.meter.response(504, None)
    assert counted.value("responses_total", status="other") == 2
    assert counted.value("responses_total", status="799") == 0
    assert counted.value("responses_total", status="200") == 1
    assert counted.value("download_seconds_count") == 4
