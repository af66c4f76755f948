"""Sleeping workers: woken when there is work for them, left alone when there is none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import SentRequest
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.wake import Sleeper
from support.frontier.bench import GRACE_MS, KEYS, WIDE_OPEN, Bench, Worker, links, url_of
from support.waiting import WaitUntil

pytest_plugins = ["support.frontier.fixtures"]

SLOW = ThrottleRule(hits=1, window_s=1_000)
A_MOMENT_S = 0.15
"""Long enough for any wake-up on the way to arrive."""

Sleepers = Callable[[str], Awaitable[Sleeper]]


@asynccontextmanager
async def listening(redis: Redis, name: str) -> AsyncIterator[Sleeper]:
    """A sleeper that has already subscribed."""
    sleeper = Sleeper(redis, KEYS, name)
    await sleeper.start()
    try:
        # The confirmation of the subscription wakes too: something may have been missed.
        await asyncio.wait_for(sleeper.sleep(None), 5)
        yield sleeper
    finally:
        await sleeper.stop()


@pytest.fixture
async def sleepers(redis: Redis) -> AsyncIterator[Sleepers]:
    """Makes sleepers by the names of their workers."""
    async with AsyncExitStack() as stack:

        async def make(name: str) -> Sleeper:
            return await stack.enter_async_context(listening(redis, name))

        yield make


async def is_woken(sleeper: Sleeper, within_s: float = A_MOMENT_S) -> bool:
    """Return whether a wake-up comes."""
    begun = time.monotonic()
    await sleeper.sleep(within_s)
    return time.monotonic() - begun < within_s * 0.9


async def fall_asleep(worker: Worker) -> None:
    """Ask until there is nothing more to get."""
    while (await worker.exchange(want=10)).leases:
        pass


async def test_a_seed_wakes_a_sleeper(bench: Bench, sleepers: Sleepers) -> None:
    """A worker that found nothing is woken by the first seed at once."""
    sleeper = await sleepers("w1")
    await fall_asleep(bench.worker)
    await bench.feed.seeds("a/1")
    assert await is_woken(sleeper)
    assert await bench.worker.urls() == ["a/1"]


async def test_a_wake_up_while_awake_is_kept(bench: Bench, sleepers: Sleepers) -> None:
    """Work that became due between the last call and the sleep is not missed."""
    sleeper = await sleepers("w1")
    await fall_asleep(bench.worker)
    await bench.feed.seeds("a/1")
    await asyncio.sleep(A_MOMENT_S)
    assert await is_woken(sleeper)


async def test_one_sleeper_is_woken_for_one_domain(bench: Bench, sleepers: Sleepers) -> None:
    """A single page does not wake the whole cluster; many domains wake several."""
    workers = [bench.another_worker(f"s{i}") for i in range(6)]
    woken = [await sleepers(worker.name) for worker in workers]
    for worker in workers:
        await fall_asleep(worker)
    await bench.feed.seeds("a/1")
    assert sum([await is_woken(sleeper) for sleeper in woken]) == 1
    await bench.feed.seeds(*(f"d{i}/1" for i in range(20)))
    assert 2 <= sum([await is_woken(sleeper) for sleeper in woken]) <= 4


async def test_a_worker_with_free_slots_is_woken_too(bench: Bench, sleepers: Sleepers) -> None:
    """A worker that got less than it wanted is woken by new work while its pages are in flight."""
    sleeper = await sleepers("w1")
    await bench.feed.seeds("a/1")
    assert len((await bench.worker.exchange(want=10)).leases) == 1
    await bench.feed.seeds("b/1")
    assert await is_woken(sleeper)


async def test_a_full_worker_is_left_alone(bench: Bench, sleepers: Sleepers) -> None:
    """A worker that wants nothing is not woken, so that another one is."""
    full, free = bench.worker, bench.another_worker("w2")
    full_sleeper, free_sleeper = await sleepers("w1"), await sleepers("w2")
    await bench.feed.seeds("a/1")
    await full.exchange(want=1)
    await fall_asleep(free)
    await bench.feed.seeds("b/1")
    assert await is_woken(free_sleeper)
    assert not await is_woken(full_sleeper)


async def test_the_dead_do_not_swallow_wake_ups(bench: Bench, sleepers: Sleepers) -> None:
    """A sleeper that has died is passed over, and a living one is woken."""
    for i in range(5):
        await fall_asleep(bench.another_worker(f"dead{i}"))
    sleeper = await sleepers("w1")
    await fall_asleep(bench.worker)
    for i in range(5, 10):
        await fall_asleep(bench.another_worker(f"dead{i}"))
    await bench.feed.seeds("a/1")
    assert await is_woken(sleeper)


async def test_links_wake_a_sleeper(bench: Bench, sleepers: Sleepers) -> None:
    """Children of one worker's page are work for another, of another spider too."""
    other = bench.another_worker("w2", "other")
    sleeper = await sleepers("w2")
    await fall_asleep(other)
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    assert not await is_woken(sleeper)
    await bench.worker.settle(lease, links=[links("b", [1], spiderid="other")])
    assert await is_woken(sleeper)


async def test_many_links_put_ahead_wake_a_sleeper(bench: Bench, sleepers: Sleepers) -> None:
    """Links of a huge page are work before the page has ended."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    sleeper = await sleepers("w2")
    await fall_asleep(bench.another_worker("w2"))
    await bench.worker.session.put_links(lease.token, [links("b", [1, 2])])
    assert await is_woken(sleeper)


async def test_returned_entries_wake_a_sleeper(bench: Bench, sleepers: Sleepers) -> None:
    """Entries that a worker releases, or leaves behind, are work for another."""
    await bench.feed.seeds("a/1")
    leaving, dying = bench.another_worker("leaving"), bench.another_worker("dying")
    await leaving.lease()
    sleeper = await sleepers("w1")
    await fall_asleep(bench.worker)
    await leaving.session.retire()
    assert await is_woken(sleeper)
    await dying.lease()
    await fall_asleep(bench.worker)
    await bench.blame("dying", "")
    assert await is_woken(sleeper)


async def test_a_cooling_domain_wakes_nobody(bench: Bench, sleepers: Sleepers) -> None:
    """Links into a domain that may not get requests yet wake no worker before its time."""
    await bench.rule(SLOW)
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.worker.sent(lease)
    waiting = bench.another_worker("w2")
    sleeper = await sleepers("w2")
    await fall_asleep(waiting)
    await bench.worker.settle(lease, links=[links("a", [3, 4])])
    assert not await is_woken(sleeper)


async def test_who_sleeps_without_end_learns_the_first_due_time(
    bench: Bench, sleepers: Sleepers
) -> None:
    """A first entry in a domain that cools down wakes one sleeper, which then knows when."""
    await bench.rule(SLOW)
    await bench.feed.seeds("a/1", crawl=CrawlKey("other", "app", "c"))
    other = bench.another_worker("other", "other")
    await other.settle(*await other.lease(), sent_ms=0)
    sleeper = await sleepers("w1")
    await fall_asleep(bench.worker)
    await bench.feed.seeds("a/1")
    assert await is_woken(sleeper)
    answer = await bench.worker.exchange(want=1)
    assert not answer.leases
    assert answer.next_due_ms is not None
    await bench.feed.seeds("a/2")
    assert not await is_woken(sleeper)


async def test_a_freed_slot_of_a_domain_wakes_a_sleeper(bench: Bench, sleepers: Sleepers) -> None:
    """A response makes room under the domain's concurrency: another worker need not wait."""
    await bench.rule(ThrottleRule(hits=100, window_s=1, moderated=False, concurrency=1))
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    sleeper = await sleepers("w2")
    await fall_asleep(bench.another_worker("w2"))
    await bench.worker.exchange(sent=[SentRequest(lease.token, 0, received=True)])
    assert await is_woken(sleeper)


async def test_a_grant_passes_the_watch_on(bench: Bench, sleepers: Sleepers) -> None:
    """Wakes another worker when the one that knew the next due time is busy."""
    await bench.rule(SLOW)
    await bench.feed.seeds("a/1", "a/2")
    (first,) = await bench.worker.lease()
    await bench.worker.settle(first, sent_ms=0)
    sleeper = await sleepers("w2")
    other = bench.another_worker("w2")
    await bench.redis.zadd("{cs0}z:link", {"w2": 9e15})
    await bench.redis.zadd(f"{KEYS.tag}workers", {"w2": 9e15})
    await bench.feed.seeds("b/1")
    assert len(await bench.worker.lease(1)) == 1
    assert await is_woken(sleeper)
    assert not await other.lease()


async def test_new_rules_wake_everybody(bench: Bench, sleepers: Sleepers) -> None:
    """A raised rule is work for sleeping workers; so are the first rules of all."""
    await bench.rule(SLOW)
    await bench.feed.seeds("a/1", "a/2")
    woken = [await sleepers(name) for name in ("w1", "w2")]
    await fall_asleep(bench.worker)
    await fall_asleep(bench.another_worker("w2"))
    await bench.rule(WIDE_OPEN)
    assert all([await is_woken(sleeper) for sleeper in woken])


async def test_the_first_rules_wake_who_waits_for_them(unruled: Bench, sleepers: Sleepers) -> None:
    """A worker that called before there were rules is woken when they come."""
    await unruled.feed.seeds("a/1")
    sleeper = await sleepers("w1")
    await unruled.worker.exchange(want=1)
    await unruled.rule(WIDE_OPEN)
    assert await is_woken(sleeper)
    assert await unruled.worker.urls() == ["a/1"]


async def test_care_makes_up_for_a_lost_wake_up(bench: Bench, sleepers: Sleepers) -> None:
    """The next maintenance step wakes a worker again for work that is due while it sleeps."""
    await bench.rule(SLOW)
    await bench.feed.seeds("a/1", "a/2")
    sleeper = await sleepers("w1")
    await fall_asleep(bench.worker)
    assert not await is_woken(sleeper)
    await bench.advance(2_000_000)
    await bench.redis.zadd(f"{KEYS.tag}workers", {"w1": 9e15})
    await bench.tend()
    assert await is_woken(sleeper)


async def test_an_idle_run_wakes_those_who_tend(bench: Bench, sleepers: Sleepers) -> None:
    """They learn of the first run that becomes idle, and are not called for each later one."""
    sleeper = await sleepers("tend")
    await bench.tend()
    await bench.feed.seeds("a/1")
    assert not await is_woken(sleeper)
    await bench.worker.crawl_all()
    assert await is_woken(sleeper)
    await bench.tend()
    for i in range(5):
        await bench.feed.seeds(f"b/{i}")
        await bench.worker.crawl_all()
    assert not await is_woken(sleeper)
    (step,) = await bench.tend()
    assert step.next_ms is not None
    assert step.next_ms <= GRACE_MS


async def test_a_stop_and_an_expiry_wake_those_who_tend(bench: Bench, sleepers: Sleepers) -> None:
    """Endings that are due at once are not left to the next round."""
    sleeper = await sleepers("tend")
    await bench.tend()
    await bench.feed.seeds("a/1")
    await bench.feed.put(bench.feed.command("stop"))
    assert await is_woken(sleeper)
    await bench.tend()
    await bench.feed.seeds("b/1", expires=int(time.time()) + 1)
    assert await is_woken(sleeper)


async def test_an_idle_cluster_is_quiet(bench: Bench, sleepers: Sleepers) -> None:
    """Wakes no worker when all is crawled and forgotten."""
    sleeper = await sleepers("w1")
    await bench.feed.seeds("a/1", "b/1")
    await is_woken(sleeper)
    await bench.worker.crawl_all()
    for _ in range(3):
        await bench.advance(3_000)
        await bench.tend()
    assert (await bench.worker.exchange(want=10)).next_due_ms is None
    assert not await is_woken(sleeper)


async def test_a_sleeper_survives_a_restart_of_redis(
    bench: Bench, sleepers: Sleepers, redis_server: RunningServer, wait_until: WaitUntil
) -> None:
    """The subscription is made again, its owner is woken then, and receives what follows."""
    sleeper = await sleepers("w1")
    redis_server.kill()
    redis_server.start()
    assert await is_woken(sleeper, 10)

    async def is_heard() -> bool:
        return bool(await bench.redis.publish(KEYS.wake_channel("w1"), "1"))

    await wait_until(is_heard)
    assert await is_woken(sleeper, 1)


async def test_wake_and_timeout_end_a_sleep(redis: Redis) -> None:
    """A sleep ends when its owner is woken from within, or when its time is over."""
    sleeper = Sleeper(redis, KEYS, "w1")
    sleeper.wake()
    await asyncio.wait_for(sleeper.sleep(None), 1)
    begun = time.monotonic()
    await sleeper.sleep(0.05)
    assert time.monotonic() - begun >= 0.05
    await sleeper.stop()


async def test_two_workers_share_what_one_was_woken_for(bench: Bench, sleepers: Sleepers) -> None:
    """A woken worker that cannot take everything wakes the next."""
    first, second = bench.another_worker("s1"), bench.another_worker("s2")
    woken = {worker.name: await sleepers(worker.name) for worker in (first, second)}
    for worker in (first, second):
        await fall_asleep(worker)
    await bench.feed.seeds("a/1", "b/1", "c/1")
    names = [name for name, sleeper in woken.items() if await is_woken(sleeper)]
    assert len(names) == 1
    worker = first if names == ["s1"] else second
    assert len(await worker.lease(1)) == 1
    other = second if worker is first else first
    assert await is_woken(woken[other.name])
    assert {url_of(lease) for lease in await other.lease(5)} <= {"a/1", "b/1", "c/1"}
