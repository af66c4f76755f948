"""Politeness: no window exceeds its hits, by the list of the sends themselves."""

from __future__ import annotations

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Release, SentRequest
from crawlstream.model.throttle_table import ThrottleRule
from support.frontier.bench import KEYS, Bench
from support.windows import bursts, check_windows, due_ms, spaced

pytest_plugins = ["support.frontier.fixtures"]


@pytest.mark.usefixtures("still")
async def test_spacing_runs_from_the_reported_send(bench: Bench) -> None:
    """A moderated domain is due one spacing after its request left, not after its grant."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds("a/1", "a/2", "a/3")
    (lease,) = await bench.worker.lease()
    await bench.advance(700)
    await bench.worker.sent(lease, after_ms=400)
    assert 600 <= await due_ms(bench.worker) <= 700
    await bench.advance(700)
    assert len(await bench.worker.lease()) == 1


@pytest.mark.usefixtures("still")
async def test_an_unreported_send_counts_as_now(bench: Bench) -> None:
    """Lets a moderated domain wait until a request is reported as sent."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.advance(20_000)
    assert 900 <= await due_ms(bench.worker) <= 1_000
    await bench.worker.settle(lease)
    assert 900 <= await due_ms(bench.worker) <= 1_000


@pytest.mark.usefixtures("still")
async def test_a_report_never_lies_in_the_future(bench: Bench) -> None:
    """A worker's clock that runs fast does not push its domain back."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.worker.sent(lease, after_ms=3_600_000)
    assert await due_ms(bench.worker) <= 1_000


@pytest.mark.usefixtures("still")
async def test_late_sends_push_the_window_back(bench: Bench) -> None:
    """A burst counts until one window after its sends: late ones allow no second burst early."""
    await bench.rule(bursts(3, 10))
    await bench.feed.seeds(*(f"a/{i}" for i in range(9)))
    leases = await bench.worker.lease(9)
    assert len(leases) == 3
    await bench.advance(2_000)
    await bench.worker.sent(*leases, after_ms=1_900)
    assert 9_500 <= await due_ms(bench.worker) <= 9_901
    await bench.advance(9_901)
    assert len(await bench.worker.lease(9)) == 3


@pytest.mark.usefixtures("still")
async def test_sends_of_a_window_expire_one_by_one(bench: Bench) -> None:
    """The window slides: each send frees its place one window later."""
    await bench.rule(bursts(3, 10))
    await bench.feed.seeds(*(f"a/{i}" for i in range(9)))
    for _ in range(3):
        await bench.worker.sent(*await bench.worker.lease())
        await bench.advance(1_000)
    assert 6_500 <= await due_ms(bench.worker) <= 7_001
    await bench.advance(7_001)
    assert len(await bench.worker.lease(9)) == 1


@pytest.mark.usefixtures("still")
async def test_a_given_back_grant_is_forfeit(bench: Bench) -> None:
    """An allowance that was granted is never refunded, though nothing was sent."""
    await bench.rule(bursts(2, 10))
    await bench.feed.seeds("a/1", "a/2", "a/3")
    leases = await bench.worker.lease(2)
    await bench.worker.release(*leases)
    assert 9_500 <= await due_ms(bench.worker) <= 10_001


@pytest.mark.usefixtures("still")
async def test_concurrency_counts_from_lease_to_response(bench: Bench) -> None:
    """No more requests are in flight than the rule allows; a response makes room at once."""
    await bench.rule(bursts(1_000, 1, concurrency=2))
    await bench.feed.seeds(*(f"a/{i}" for i in range(5)))
    one, two = await bench.worker.lease(5)
    assert await due_ms(bench.worker) > 0
    await bench.worker.sent(one, two)
    assert await due_ms(bench.worker) > 0
    answer = await bench.worker.exchange(sent=[SentRequest(one.token, 1, received=True)], want=5)
    assert len(answer.leases) == 1
    await bench.worker.settle(one)
    assert not await bench.worker.lease(5)
    await bench.worker.settle(two)
    assert len(await bench.worker.lease(5)) == 1


@pytest.mark.usefixtures("still")
async def test_spiders_share_the_allowance_of_a_domain(bench: Bench) -> None:
    """The limit holds at the site, for all workers together."""
    await bench.rule(spaced(1, 10))
    other = bench.another_worker("w2", "other")
    await bench.feed.seeds("a/1", "a/2")
    await bench.feed.seeds("a/3", crawl=CrawlKey("other", "app", "c"))
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, sent_ms=0)
    assert await due_ms(other) > 9_000
    await bench.advance(10_000)
    assert len(await other.lease()) == 1
    assert await due_ms(bench.worker) > 9_000


@pytest.mark.usefixtures("still")
async def test_retries_pay_like_any_request(bench: Bench) -> None:
    """A requeued entry waits for its domain's next turn."""
    await bench.rule(spaced(1, 10))
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.worker.requeue(lease, sent_ms=0)
    assert 9_000 < await due_ms(bench.worker) <= 10_000


@pytest.mark.usefixtures("still")
async def test_a_robots_txt_and_its_page_may_go_back_to_back(bench: Bench) -> None:
    """The first grant of a domain buys its robots.txt; the page follows, then a double pause."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds("a/1", "a/2", "a/3")
    (lease,) = await bench.worker.lease()
    await bench.worker.sent(lease)
    answer = await bench.worker.exchange(
        releases=[Release(token=lease.token, sent_ms=0, robots=True)], want=5
    )
    (page,) = answer.leases
    await bench.worker.settle(page, sent_ms=0)
    assert 1_900 <= await due_ms(bench.worker) <= 2_000
    await bench.advance(2_000)
    (again,) = await bench.worker.lease(5)
    await bench.worker.release(again, sent_ms=0, robots=True)
    assert 900 <= await due_ms(bench.worker) <= 1_000


@pytest.mark.usefixtures("still")
async def test_a_page_follows_its_robots_txt_though_the_response_was_told_before(
    bench: Bench,
) -> None:
    """A worker reports a response when it comes, and a file's content when it has read it."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.worker.exchange(sent=[SentRequest(lease.token, 1, received=True)])
    answer = await bench.worker.exchange(
        releases=[Release(token=lease.token, sent_ms=1, robots=True)], want=5
    )
    (page,) = answer.leases
    assert page.entry == lease.entry
    await bench.worker.settle(page, sent_ms=0)
    assert 1_900 <= await due_ms(bench.worker) <= 2_000


@pytest.mark.usefixtures("still")
async def test_another_worker_is_woken_for_the_page_after_a_robots_txt(bench: Bench) -> None:
    """The one that bought the file may have no room for more."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds("a/1", "a/2")
    other = bench.another_worker("w2")
    (lease,) = await bench.worker.lease()
    await bench.worker.exchange(sent=[SentRequest(lease.token, 1, received=True)])
    assert not await other.lease()
    await bench.worker.exchange(
        releases=[Release(token=lease.token, sent_ms=1, robots=True)], want=0
    )
    (page,) = await other.lease()
    assert page.entry == lease.entry


@pytest.mark.usefixtures("still")
async def test_a_crawl_delay_earns_no_bonus(bench: Bench) -> None:
    """A site that asks for pauses gets the first one before its first page."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.worker.exchange(sent=[SentRequest(lease.token, 1, received=True)])
    release = Release(token=lease.token, sent_ms=1, robots=True, crawl_delay_ms=3_000)
    answer = await bench.worker.exchange(releases=[release], want=5)
    assert not answer.leases
    assert 2_900 <= await due_ms(bench.worker) <= 3_001


@pytest.mark.usefixtures("still")
async def test_one_hit_a_window_earns_no_bonus(bench: Bench) -> None:
    """Counts a robots.txt as the one request that the rule allows."""
    await bench.rule(spaced(1, 10))
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.worker.release(lease, sent_ms=0, robots=True)
    assert await due_ms(bench.worker) > 9_000


@pytest.mark.usefixtures("still")
async def test_two_hits_a_window_are_a_robots_txt_and_its_page(bench: Bench) -> None:
    """They may go back to back; then both have been used up."""
    await bench.rule(spaced(2, 10))
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.worker.release(lease, sent_ms=0, robots=True)
    (page,) = await bench.worker.lease(5)
    await bench.worker.settle(page, sent_ms=0)
    assert 9_900 <= await due_ms(bench.worker) <= 10_000


@pytest.mark.usefixtures("still")
async def test_a_domain_that_ran_empty_is_remembered_for_its_pause(bench: Bench) -> None:
    """A stop takes all that waits in it, care forgets what is spent: its double pause is not."""
    await bench.rule(spaced(2, 10))
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.worker.release(lease, sent_ms=0, robots=True)
    await bench.worker.settle(*await bench.worker.lease(), sent_ms=0)
    for passed_ms, granted in ((0, 0), (5_001, 0), (4_998, 0), (1, 1)):
        await bench.feed.say("stop")
        await bench.tend()
        await bench.advance(passed_ms)
        await bench.tend()
        await bench.feed.seeds("a/3")
        assert len(await bench.worker.lease()) == granted


@pytest.mark.usefixtures("still")
async def test_a_send_counts_for_a_whole_window_wherever_in_a_bucket_it_left(bench: Bench) -> None:
    """Sends of generous rules are counted by buckets: one counts as if it had left at its end."""
    hits, window_ms, bucket_ms = 130, 3_200, 100
    await bench.rule(bursts(hits, window_ms / 1000))
    await bench.feed.seeds(*(f"a/{i}" for i in range(2 * hits)))
    await bench.worker.exchange()
    await bench.advance(bucket_ms - 1 - await bench.clock() % bucket_ms)
    await bench.worker.settle(*await bench.worker.lease(hits), sent_ms=0)
    await bench.advance(window_ms - 1)
    assert await due_ms(bench.worker) <= bucket_ms + 1
    await bench.advance(bucket_ms + 1)
    assert len(await bench.worker.lease(hits)) == hits


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("rule", [spaced(2, 10), bursts(5, 10)])
async def test_after_a_restart_a_domain_has_used_its_allowance(
    bench: Bench, rule: ThrottleRule
) -> None:
    """Each domain waits two spacings, or its own window, after a restart; no longer, and once.

    And a second, in which workers may still send what was granted before.
    """
    await bench.rule(rule)
    await bench.feed.seeds("a/1", "a/2")
    epoch = (await bench.worker.exchange()).redis_epoch
    await bench.pretend_restart()
    answer = await bench.worker.exchange(want=1)
    assert (answer.redis_epoch > epoch, list(answer.leases)) == (True, [])
    pause = 11_000 if rule.moderated else 11_001
    assert pause - 100 <= await due_ms(bench.worker) <= pause
    await bench.advance(pause)
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, sent_ms=0)
    await bench.advance(pause)
    assert len(await bench.worker.lease()) == 1


@pytest.mark.usefixtures("still")
async def test_a_domain_pays_for_a_restart_once(bench: Bench) -> None:
    """Spaces requests as before after the one pause for a restart."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds(*(f"a/{i}" for i in range(5)))
    await bench.worker.exchange()
    await bench.pretend_restart()
    await bench.advance(await due_ms(bench.worker))
    for _ in range(3):
        await bench.worker.settle(*await bench.worker.lease(), sent_ms=0)
        assert 900 <= await due_ms(bench.worker) <= 1_000
        await bench.advance(1_000)


@pytest.mark.usefixtures("still")
async def test_a_domain_whose_window_has_passed_waits_no_more(bench: Bench) -> None:
    """It is ready for the rest of its allowance, and in no other index."""
    await bench.rule(bursts(3, 10))
    await bench.feed.seeds(*(f"a/{i}" for i in range(9)))
    await bench.worker.settle(*await bench.worker.lease(3), sent_ms=0)
    await bench.advance(10_001)
    assert len(await bench.worker.lease()) == 1
    indexes = [await bench.redis.zscore(f"{KEYS.tag}{index}:link", "a") for index in "wr"]
    assert indexes[0] is None
    assert indexes[1] is not None


@pytest.mark.usefixtures("still")
async def test_a_long_window_of_one_domain_holds_back_no_other(bench: Bench) -> None:
    """A restart makes no worker wait for the longest window of the table."""
    await bench.rule(spaced(10, 1), {"slow": bursts(1, 86_400)})
    await bench.feed.seeds("slow/1", "a/1")
    await bench.pretend_restart()
    assert await due_ms(bench.worker) <= 1_200
    await bench.advance(1_200)
    assert await bench.worker.urls() == ["a/1"]


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("lost", ["the page", "robots.txt", "both"])
async def test_after_a_restart_a_robots_txt_brings_no_page_at_once(bench: Bench, lost: str) -> None:
    """Redis has lost the last moments: both may have been sent, whatever it knows of."""
    rule, sends = spaced(2, 10), list[int]()
    await bench.rule(rule)
    await bench.feed.seeds(*(f"a/{i}" for i in range(9)))
    sends += [await bench.clock()] * 2
    if lost != "both":
        (lease,) = await bench.worker.lease()
        if lost == "the page":
            await bench.worker.release(lease, sent_ms=0, robots=True)
    await bench.pretend_restart()
    await bench.worker.exchange()
    if lost == "robots.txt":
        await bench.worker.release(lease, sent_ms=0, robots=True)
    for _ in range(150):
        for lease in await bench.worker.lease():
            sends.append(await bench.clock())
            await bench.worker.settle(lease, sent_ms=0)
        await bench.advance(200)
    assert len(sends) > 3
    check_windows(sends, rule)


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("rule", [spaced(4, 2), bursts(5, 2), bursts(300, 2)], ids=str)
async def test_what_leaves_shortly_after_a_restart_is_paid_for(
    bench: Bench, rule: ThrottleRule
) -> None:
    """Grants that Redis has lost may be used for a second by workers that do not know of it."""
    await bench.rule(rule)
    await bench.feed.seeds(*(f"a/{i}" for i in range(199)))
    kept = {key: await bench.redis.dump(key) for key in await bench.redis.keys("*")}
    granted, sends = await bench.worker.lease(100), list[int]()
    await bench.redis.flushdb()
    for key, dump in kept.items():
        await bench.redis.restore(key, 0, dump)
    await bench.pretend_restart()
    other = bench.another_worker("other")
    await other.exchange()
    restarted = await bench.clock()
    for at in range(20):
        if at == 4:
            sends += [restarted + 999] * len(granted)
        for lease in await other.lease(100):
            sends.append(await bench.clock())
            await other.settle(lease, sent_ms=0)
        await bench.advance(250)
    assert len(sends) > len(granted)
    check_windows(sends, rule)


async def test_a_restart_with_holds_under_way_keeps_them(bench: Bench) -> None:
    """Leases in Redis' log are still held, and may be settled."""
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.pretend_restart()
    assert not (await bench.worker.settle(lease)).stale
    assert (await bench.state()).done == 1


@pytest.mark.parametrize(
    "step_ms", [3_600_000, -3_600_000, 10_001, 9_999, 5_000, 1_000, 999, 1, -1, -999, -9_999]
)
async def test_a_step_of_the_machine_s_clock_gives_nothing_away(bench: Bench, step_ms: int) -> None:
    """Opens no window early when Redis' clock jumps, and continues afterwards."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, sent_ms=0)
    for _ in range(5):
        await bench.redis.hincrby(KEYS.meta(), "wall", -step_ms)
        assert 100 <= await due_ms(bench.worker) <= 1_000
    await bench.advance(1_000)
    assert len(await bench.worker.lease()) == 1


@pytest.mark.usefixtures("still")
async def test_a_rule_that_becomes_unmoderated_grants_no_burst_on_top(bench: Bench) -> None:
    """Requests sent evenly before count as a whole allowance of the new rule."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds(*(f"a/{i}" for i in range(30)))
    for _ in range(5):
        await bench.worker.settle(*await bench.worker.lease(), sent_ms=0)
        await bench.advance(1_000)
    await bench.rule(bursts(10, 10))
    assert 8_500 <= await due_ms(bench.worker) <= 9_001
    await bench.advance(9_001)
    assert len(await bench.worker.lease(30)) == 10


@pytest.mark.usefixtures("still")
async def test_a_rule_that_becomes_moderated_spaces_from_the_last_send(bench: Bench) -> None:
    """The latest send of a burst is what the new spacing runs from."""
    await bench.rule(bursts(10, 10))
    await bench.feed.seeds(*(f"a/{i}" for i in range(9)))
    for _ in range(3):
        await bench.worker.settle(*await bench.worker.lease(), sent_ms=0)
        await bench.advance(900)
    await bench.rule(spaced(10, 10))
    assert 50 <= await due_ms(bench.worker) <= 100


async def test_a_generous_rule_needs_little_memory(bench: Bench) -> None:
    """Keeps the state of a domain small, however many hits a window has."""
    await bench.rule(bursts(100_000, 60))
    await bench.feed.seeds(*(f"a/{i}" for i in range(600)))
    for _ in range(300):
        await bench.worker.settle(*await bench.worker.lease(2), sent_ms=0)
        await bench.advance(300)
    assert await bench.redis.hstrlen("{cs0}t", "a") < 2_000
