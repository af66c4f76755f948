"""Requests that a site allows without a lease: its rule holds for them, and for all others."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from crawlstream.model.effects import UNSENT, Release, SentRequest
from crawlstream.model.inspection import DomainReport
from crawlstream.model.throttle_table import Reaction, SiteReaction, ThrottleRule
from crawlstream_frontier.worker.session import Reservation
from support.frontier.bench import WIDE_OPEN, Bench
from support.windows import bursts, by_address

pytest_plugins = ["support.frontier.fixtures"]

TAKES_MS = 5_000
MINUTE_MS = 60_000


async def wait_ms(bench: Bench, host: str = "a", within_ms: int = 15_000) -> int:
    """How long a reserved request has to wait; -1 and -2 as ``reserve`` answers them."""
    session = bench.worker.session
    return (await session.reserve(host, takes_ms=TAKES_MS, within_ms=within_ms)).wait_ms


async def reserve(bench: Bench, gate: str | None = None) -> Reservation:
    """Reserve a request; ``gate`` is the one where the request before was not sent."""
    session = bench.worker.session
    return await session.reserve("a", takes_ms=TAKES_MS, within_ms=15_000, gate=gate)


async def due_ms(bench: Bench) -> int:
    """How long no page is granted."""
    answer = await bench.worker.exchange(want=5)
    assert not answer.leases
    assert answer.next_due_ms is not None
    return answer.next_due_ms


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("moderated", [True, False])
async def test_a_reserved_request_counts_when_it_is_over(bench: Bench, *, moderated: bool) -> None:
    """Grants nothing until a reserved request is over, and a window later what the rule allows."""
    await bench.rule(ThrottleRule(hits=1, window_s=10, moderated=moderated))
    await bench.feed.seeds("a/1", "a/2")
    assert await wait_ms(bench) == 0
    assert TAKES_MS - 10 < await due_ms(bench) <= TAKES_MS
    await bench.advance(TAKES_MS)
    assert 9_900 < await due_ms(bench) <= 10_001
    await bench.advance(10_001)
    assert len(await bench.worker.lease(5)) == 1


@pytest.mark.usefixtures("still")
async def test_it_waits_for_its_turn_like_a_page(bench: Bench) -> None:
    """Reserves a request one spacing after a page, and none that would be too late."""
    await bench.rule(ThrottleRule(hits=1, window_s=10))
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    assert await wait_ms(bench) == -1
    await bench.worker.settle(lease, sent_ms=0)
    assert await wait_ms(bench, within_ms=5_000) == -1
    waits = await wait_ms(bench)
    assert 9_900 < waits <= 10_000
    await bench.advance(waits)
    assert TAKES_MS - 50 < await due_ms(bench) <= TAKES_MS


@pytest.mark.usefixtures("still")
async def test_it_never_exceeds_how_many_may_be_under_way(bench: Bench) -> None:
    """None while the concurrency is used up, nor does an old answer end the rest that it needs."""
    await bench.rule(ThrottleRule(hits=100, window_s=1, moderated=False, concurrency=2))
    await bench.feed.seeds(*(f"a/{n}" for n in range(4)))
    one, two = await bench.worker.lease(5)
    await bench.worker.sent(one, two)
    assert await wait_ms(bench) == -1
    await bench.worker.settle(one)
    assert await wait_ms(bench) == 0
    heard = SentRequest(two.token, 0, received=True, heard=SiteReaction(Reaction.ANSWER))
    answer = await bench.worker.exchange(sent=[heard], releases=[Release(token=two.token)], want=5)
    assert not answer.leases
    await bench.advance(TAKES_MS)
    assert len(await bench.worker.lease(5)) == 2


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("moderated", [True, False])
async def test_a_pause_that_a_site_wants_does_not_stand_for_its_rule(
    bench: Bench, *, moderated: bool
) -> None:
    """A pause shorter than the window gives no request ahead of the window's end."""
    await bench.rule(ThrottleRule(hits=1, window_s=10, moderated=moderated))
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    refused = SentRequest(
        lease.token, 0, received=True, heard=SiteReaction(Reaction.REFUSAL, 1_000)
    )
    await bench.worker.exchange(sent=[refused], releases=[Release(token=lease.token)])
    assert await wait_ms(bench) == -1
    await bench.advance(1_001)
    assert 8_900 < await wait_ms(bench) <= 9_000


@pytest.mark.usefixtures("still")
async def test_a_lowered_rule_holds_for_a_request_that_is_reserved(bench: Bench) -> None:
    """Grants nothing for the oldest send if a lowered rule was already exceeded."""
    await bench.rule(ThrottleRule(hits=3, window_s=10, moderated=False))
    await bench.feed.seeds("a/1", "a/2", "a/3")
    for _ in range(3):
        (lease,) = await bench.worker.lease()
        await bench.worker.settle(lease, sent_ms=0)
        await bench.advance(1_000)
    await bench.rule(ThrottleRule(hits=1, window_s=10, moderated=False))
    assert await wait_ms(bench) == -1
    await bench.advance(8_100)
    assert 0 < await wait_ms(bench) < 1_100


@pytest.mark.usefixtures("still")
async def test_a_site_gives_one_a_minute(bench: Bench) -> None:
    """A site that redirects to it cannot keep it from its own pages."""
    assert await wait_ms(bench) == 0
    await bench.advance(TAKES_MS)
    assert await wait_ms(bench) == -1
    assert await wait_ms(bench, "b") == 0


@pytest.mark.usefixtures("still")
async def test_a_site_that_may_not_be_asked_gives_none(bench: Bench) -> None:
    """Blocked, paused, without an allowance: each host by its own rule; nor without any rules."""
    paused = ThrottleRule(hits=1, window_s=1, paused_until=int(time.time()) + 3_600)
    await bench.rule(
        WIDE_OPEN,
        {"none.com": ThrottleRule(hits=0, window_s=1), "x.paused.com": paused},
        ["bad.com", "y.part.com"],
    )
    for host in ("none.com", "www.none.com", "x.paused.com", "bad.com", "z.y.part.com"):
        assert await wait_ms(bench, host) == -2, host
    for host in ("paused.com", "part.com"):
        assert await wait_ms(bench, host) == 0, host


async def test_without_rules_no_request_is_reserved(unruled: Bench) -> None:
    """Reserves no request, and sends none, before the rules are known."""
    assert await wait_ms(unruled) == -1


async def hear(bench: Bench, heard: SiteReaction) -> DomainReport:
    """Let the site react so to a reserved request, twice reported; return its state then."""
    await bench.redis.delete(bench.frontier.scripts.keys.robots("a"))
    place = await reserve(bench)
    await bench.advance(place.wait_ms + TAKES_MS)
    for _ in range(2):
        await bench.worker.session.reacted(place, heard)
    return await bench.frontier.inspector.domain("a")


@pytest.mark.usefixtures("still")
async def test_a_refused_or_silent_reserved_request_delays_pages(bench: Bench) -> None:
    """Delays them as after a page: 1 s, 2 s, as requested, and from the fifth silence on."""
    for strikes, asked_ms, pause_ms in ((1, 0, 1_000), (2, 0, 2_000), (3, 9_000, 9_000)):
        report = await hear(bench, SiteReaction(Reaction.REFUSAL, asked_ms))
        assert (report.strikes, report.not_before_ms) == (strikes, pause_ms)
        await bench.advance(pause_ms)
    assert (await hear(bench, SiteReaction(Reaction.ANSWER))).strikes == 0
    silences = [await hear(bench, SiteReaction(Reaction.SILENCE)) for _ in range(5)]
    assert [each.strikes for each in silences] == [0, 0, 0, 0, 1]
    await bench.feed.seeds("a/1")
    assert await due_ms(bench) == 1_000


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_an_answer_to_a_reserved_request_ends_its_pause(
    bench: Bench, *, is_restarted: bool
) -> None:
    """Grants pages at once, but neither after a restart nor against a later refusal of a page."""
    await bench.rule(replace(WIDE_OPEN, concurrency=3))
    await bench.feed.seeds("a/1", "a/2", "a/3")
    (lease,) = await bench.worker.lease()
    place = await reserve(bench)
    if is_restarted:
        await bench.pretend_restart()
    await bench.worker.session.reacted(place, SiteReaction(Reaction.ANSWER))
    assert bool(await bench.worker.lease()) is not is_restarted
    await bench.redis.delete(bench.frontier.scripts.keys.robots("a"))
    await bench.advance(TAKES_MS)
    place = await reserve(bench)
    refused = SentRequest(
        lease.token, 0, received=True, heard=SiteReaction(Reaction.REFUSAL, 20_000)
    )
    await bench.worker.exchange(sent=[refused])
    await bench.worker.session.reacted(place, SiteReaction(Reaction.ANSWER))
    assert await due_ms(bench) == 20_000


@pytest.mark.usefixtures("still")
async def test_it_counts_at_the_address_of_its_site(bench: Bench) -> None:
    """Counts a reserved request at its address once that is known; before, nothing is sent."""
    await bench.rule(WIDE_OPEN, groups=by_address(bursts(1, 20)))
    gate = "=@192.0.2.1"
    assert (await reserve(bench)).gate == ""
    assert (await reserve(bench, gate)).wait_ms == -1
    await bench.advance(TAKES_MS)
    place = await reserve(bench)
    assert (place.wait_ms, place.gate) == (0, gate)
    await bench.feed.seeds("b/1")
    (lease,) = await bench.worker.lease()
    released = [Release(token=lease.token, sent_ms=UNSENT, gate=gate)]
    assert not (await bench.worker.exchange(releases=released, want=5)).leases
    await bench.advance(TAKES_MS)
    assert 19_900 < await due_ms(bench) <= 20_001


@pytest.mark.usefixtures("still")
async def test_a_site_that_moves_on_gives_no_more_for_it(bench: Bench) -> None:
    """Gives one a minute, from the second address on."""
    await bench.rule(WIDE_OPEN, groups=by_address(WIDE_OPEN))
    assert (await reserve(bench)).wait_ms == 0
    for gate, wait in (("=@192.0.2.1", 0), ("=@192.0.2.2", -1), ("", -1)):
        await reserve(bench, gate)
        await bench.advance(TAKES_MS)
        assert (await reserve(bench)).wait_ms == wait
