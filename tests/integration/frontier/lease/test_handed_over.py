"""Entries that are released to another spider: pages that turn out to need a browser."""

from __future__ import annotations

from crawlstream.model.effects import UNSENT, Release, SentRequest
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_frontier.worker.session import DEADLINE_MS
from support.frontier.bench import Bench, url_of

pytest_plugins = ["support.frontier.fixtures"]


async def test_an_entry_is_handed_over_once_and_stays_itself(bench: Bench) -> None:
    """It leaves the queue of its spider, joins the back of the other's, and counts once."""
    await bench.feed.seeds(*(f"a/{n}" for n in range(3)))
    browser = bench.another_worker("browser", "link+render")
    leases = await bench.worker.lease(3)
    releases = [
        Release(token=lease.token, sent_ms=UNSENT, spiderid="link+render") for lease in leases[:2]
    ]
    await bench.worker.exchange(releases=releases)
    answer = await bench.worker.exchange(releases=releases, want=5)
    assert answer.stale == {lease.token for lease in leases[:2]}
    assert answer.leases == []
    taken = await browser.lease(5)
    assert [url_of(lease) for lease in taken] == ["a/0", "a/1"]
    assert [lease.entry for lease in taken] == [lease.entry for lease in leases[:2]]
    assert [lease.is_marked for lease in taken] == [False, False]
    await browser.settle(*taken)
    await bench.worker.settle(leases[2])
    state = await bench.state()
    assert (state.admitted, state.done, state.pending, state.held) == (3, 3, 0, 0)


async def test_a_document_before_the_hand_over_uses_its_grant(bench: Bench) -> None:
    """The other spider waits for the next one, as the rule is that of the domain."""
    await bench.rule(ThrottleRule(hits=1, window_s=10))
    await bench.feed.seeds("a/0")
    browser = bench.another_worker("browser", "link+render")
    (lease,) = await bench.worker.lease()
    sent = [SentRequest(lease.token, 1, received=True)]
    release = Release(token=lease.token, sent_ms=1, spiderid="link+render")
    await bench.worker.exchange(sent=sent, releases=[release])
    assert await browser.lease() == []
    await bench.advance(10_100)
    assert [url_of(lease) for lease in await browser.lease()] == ["a/0"]


async def test_a_dead_browser_returns_the_entry_to_its_own_queue(bench: Bench) -> None:
    """Workers without a browser do not get it again."""
    await bench.feed.seeds("a/0")
    browser = bench.another_worker("browser", "link+render")
    (lease,) = await bench.worker.lease()
    release = Release(token=lease.token, sent_ms=UNSENT, spiderid="link+render")
    await bench.worker.exchange(releases=[release])
    assert await browser.lease()
    await bench.advance(DEADLINE_MS)
    await bench.tend()
    await bench.advance(1_100)
    assert await bench.worker.lease() == []
    assert [url_of(one) for one in await browser.lease()] == ["a/0"]
