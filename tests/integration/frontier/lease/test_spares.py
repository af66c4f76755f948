"""Spare leases: further pages of a granted one's domain, which may be ended or released only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import UNSENT, Outcome, Release, SentRequest, Settle
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.web.throttle_groups import Group
from crawlstream_frontier.waste.last_band import last_of
from crawlstream_frontier.worker.session import DEADLINE_MS
from support.frontier.bench import CRAWL, Bench, url_of

pytest_plugins = ["support.frontier.fixtures"]

SLOW = ThrottleRule(hits=1, window_s=10)


def _skipped(lease: Lease) -> Settle:
    return Settle(token=lease.token, outcome=Outcome.SKIPPED, reason="x", sent_ms=UNSENT)


@pytest.fixture
async def slow(bench: Bench) -> Bench:
    """Return a frontier with ten pages of a domain, which takes a request in ten seconds."""
    await bench.rule(SLOW)
    await bench.feed.seeds(*(f"a/{n}" for n in range(10)))
    return bench


async def test_a_grant_brings_the_pages_behind_its_own(slow: Bench) -> None:
    """They do not count as granted, are in order, and are held like other leases."""
    answer = await slow.worker.exchange(want=5, spares={"a": 3, "b": 7})
    assert [url_of(lease) for lease in answer.leases] == ["a/0"]
    assert [url_of(lease) for lease in answer.spares] == ["a/1", "a/2", "a/3"]
    assert answer.next_due_ms
    state = await slow.state()
    assert (state.held, state.queued) == (4, 6)


async def test_skipped_pages_use_nothing_of_the_rule(slow: Bench) -> None:
    """The next page of the domain is granted at once, and only once it was requested, later."""
    first = await slow.worker.exchange(want=1, spares={"a": 3})
    ends = [_skipped(lease) for lease in (*first.leases, *first.spares)]
    second = await slow.worker.exchange(settles=ends, want=1, spares={"a": 40})
    assert [url_of(lease) for lease in second.leases] == ["a/4"]
    assert [url_of(lease) for lease in second.spares] == [f"a/{n}" for n in range(5, 10)]
    ends = [_skipped(lease) for lease in second.spares]
    answer = await slow.worker.exchange(
        sent=[SentRequest(second.leases[0].token, 0, received=True)], settles=ends, want=1
    )
    assert (answer.leases, answer.spares) == ([], [])
    await slow.worker.settle(*second.leases)
    state = await slow.state()
    assert (state.skipped, state.done, state.queued, state.held) == (9, 1, 0, 0)


async def test_a_domain_that_must_wait_grants_no_page_and_brings_no_spare_one(slow: Bench) -> None:
    """Reports about the requests of spare pages, which no worker sends, change nothing."""
    first = await slow.worker.exchange(want=1, spares={"a": 2})
    sent = [SentRequest(lease.token, 1, received=True) for lease in first.spares]
    answer = await slow.worker.exchange(sent=sent, want=5, spares={"a": 5})
    assert (answer.leases, answer.spares) == ([], [])


async def test_released_spare_pages_keep_their_order(slow: Bench) -> None:
    """Puts released spare pages in front, in order; a page that is put last waits last."""
    first = await slow.worker.exchange(want=1, spares={"a": 4})
    last, *back = first.spares
    releases = [Release(token=last.token, sent_ms=UNSENT, priority=last_of(50))]
    releases += [Release(token=lease.token) for lease in reversed(back)]
    await slow.worker.exchange(settles=[_skipped(first.leases[0])], releases=releases)
    await slow.rule()
    assert await slow.worker.urls() == [f"a/{n}" for n in (2, 3, 4, 5, 6, 7, 8, 9, 1)]


async def test_spare_pages_of_a_dead_worker_come_again_unmarked(slow: Bench) -> None:
    """Returns spare pages of a dead worker as unsent, and revokes only the granted one."""
    dead = slow.another_worker("dead")
    await dead.exchange(want=1, spares={"a": 3})
    await slow.advance(DEADLINE_MS)
    await slow.tend()
    await slow.rule()
    await slow.tend()
    await slow.advance(1_100)
    leases = await slow.worker.lease(4)
    assert [url_of(lease) for lease in leases] == ["a/0", "a/1", "a/2", "a/3"]
    assert [lease.is_marked for lease in leases] == [True, False, False, False]


async def test_a_call_brings_128_spare_pages(bench: Bench) -> None:
    """A call with many of them would keep others waiting; several crawls take turns."""
    other = replace(CRAWL, crawlid="other")
    await bench.rule(SLOW)
    for crawl in (CRAWL, other):
        await bench.feed.seeds(*(f"a/{n}" for n in range(70)), crawl=crawl)
    await bench.feed.seeds(*(f"b/{n}" for n in range(70)))
    answer = await bench.worker.exchange(want=2, spares={"a": 100, "b": 100})
    assert (len(answer.leases), len(answer.spares)) == (2, 128)
    assert {lease.crawl for lease in answer.spares} == {CRAWL, other}
    assert {lease.domain for lease in answer.spares} == {"a", "b"}


async def test_spare_pages_use_no_gate(bench: Bench) -> None:
    """A domain in a group takes its spare pages along, and its neighbour is granted after them."""
    await bench.rule(groups={"shared": Group(rule=SLOW, members=("a", "b"))})
    await bench.feed.seeds("a/0", "a/1", "a/2", "b/0")
    first = await bench.worker.exchange(want=1, spares={"a": 5, "b": 5})
    assert [lease.gate for lease in (*first.leases, *first.spares)] == ["=shared", *[""] * 2]
    ends = [_skipped(lease) for lease in (*first.leases, *first.spares)]
    answer = await bench.worker.exchange(settles=ends, want=1)
    assert [url_of(lease) for lease in answer.leases] == ["b/0"]
