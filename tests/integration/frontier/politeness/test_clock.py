"""The frontier clock under everything that clocks do: it may stand, and never runs ahead."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import pytest
from redis.asyncio import Redis

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_frontier.layout import create_frontier
from crawlstream_frontier.scripts import Scripts
from support.frontier.bench import (
    KEYS,
    Bench,
    Worker,
    endings,
    links,
    open_bench,
    open_session,
)
from support.frontier.time import TimedRedis, Times, timed
from support.windows import bursts, check_windows, spaced

DAY_MS = 86_400_000
STEPS = (
    *(1, 2, 7, 20, 99, 101, 500, 999, 1_000, 5_000, 9_999, 10_000, 3_600_000),
    *(DAY_MS, 8 * DAY_MS, 40 * DAY_MS),
)
"""By which Redis' clock is set, in ms."""
LATE_MS = 100
"""Delay of a call that does not make the clock lose time, as in ``clock.lua``."""
CALLS = 400


class Kind(NamedTuple):
    """A kind of day."""

    directions: tuple[int, ...]
    """In which Redis' clock is set, at every fifth call."""
    slowest_ms: float
    """Longest time of a request, or an answer, on its way."""
    pauses_ms: tuple[int, ...]
    """Longest times between two calls."""
    most_given_ms: float
    """Gain of the clock over true time that is allowed."""
    most_lost: float
    """Which part of true time it may lose."""


BUSY, IDLE = (1, 25, 100), (1_000, 5_000)
KINDS = {
    "quiet and busy": Kind((), 20, BUSY, 1, 0.03),
    "quiet and idle": Kind((), 20, IDLE, 1, 0.03),
    "one after the other": Kind((), 0, (1,), 1, 0.2),
    "forward": Kind((1,), 0, BUSY, LATE_MS + 2, 0.6),
    "forward, while calls take long": Kind((1,), 20, BUSY, LATE_MS + 40, 0.6),
    "forward, while nearly nobody calls": Kind((1,), 0, IDLE, LATE_MS + 2, 0.6),
    "back": Kind((-1,), 0, BUSY, 1, 0.6),
    "forward and back": Kind((1, -1), 0, BUSY, LATE_MS + 2, 0.6),
    "forward and back, while calls take long": Kind((1, -1), 20, BUSY, LATE_MS + 40, 0.6),
}


@dataclass
class Day:
    """Some callers of a frontier, who make a call now and then."""

    redis: TimedRedis
    kind: Kind
    random: Random

    async def live(self) -> None:
        """Let time pass."""
        await create_frontier(Scripts(self.redis, KEYS))
        callers = [open_session(self.redis, str(number)) for number in range(4)]
        for caller in callers:
            await caller.beat()
        self.redis.times.seen.clear()
        for _ in range(CALLS):
            self.redis.times.now += self.random.random() * self.random.choice(self.kind.pauses_ms)
            if self.kind.directions and self.random.random() < 0.2:
                step_ms = self.random.choice(STEPS) * self.random.choice(self.kind.directions)
                self.redis.times.ahead += step_ms
            first, second = self.random.sample(callers, 2)
            if self.random.random() < 0.2:
                self.redis.times.meanwhile = second.beat
            await first.beat()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
async def test_the_clock_never_gains_on_true_time(redis: Redis, kind: Kind) -> None:
    """Between any two calls it gains no more than has passed, and it goes on."""
    for seed in range(3):
        await redis.flushdb()
        random = Random(seed)
        times = Times(slowest_ms=(kind.slowest_ms, kind.slowest_ms), random=random)
        async with timed(redis, times) as client:
            await Day(client, kind, random).live()
        assert times.given_away_ms() <= kind.most_given_ms
        assert times.lost_ms() <= kind.most_lost * (times.now - times.seen[0][0])


@pytest.mark.parametrize("directions", [(1,), (1, -1)], ids=["forward", "forward and back"])
@pytest.mark.parametrize("rule", [spaced(10, 10), bursts(10, 10), bursts(300, 2)], ids=str)
async def test_steps_of_redis_clock_crowd_no_window(
    redis: Redis, rule: ThrottleRule, directions: tuple[int, ...]
) -> None:
    """Overruns no window of true time, whatever steps Redis' clock makes."""
    random, times, sends = Random(1), Times(), list[int]()
    async with timed(redis, times) as client:
        bench = await open_bench(client, rule)
        await bench.feed.seeds(*(f"a/{number}" for number in range(200)))
        await bench.feed.seeds(*(f"a/{number}" for number in range(200, 400)))
        workers = [bench.another_worker(f"w{number}") for number in range(3)]
        for _ in range(CALLS):
            times.now += random.choice((1, 50, 400))
            if random.random() < 0.5:
                times.ahead += random.choice(STEPS) * random.choice(directions)
            worker = random.choice(workers)
            leases = await worker.lease(20)
            sends += [int(times.now)] * len(leases)
            await worker.settle(*leases, sent_ms=0)
    assert len(sends) > rule.hits
    late_s = LATE_MS / 1000
    check_windows(sends, ThrottleRule(hits=rule.hits, window_s=rule.window_s - late_s))


async def test_the_clock_stands_while_nobody_can_tell(redis: Redis) -> None:
    """Processes that make one call each move no clock, and those that stay lose nothing by them."""
    times = Times()
    async with timed(redis, times) as client:
        await create_frontier(Scripts(client, KEYS))
        stays = open_session(client, "stays")
        await stays.beat()
        begun = times.seen[-1][1]
        for _ in range(5):
            times.now += 1_000
            await open_session(client, "once").beat()
        assert times.seen[-1][1] == begun
        times.now += 2_000
        await stays.beat()
        assert times.seen[-1][1] == begun + 2_000


async def test_what_is_known_of_another_life_counts_for_nothing(redis: Redis) -> None:
    """Ignores what processes know of another epoch after a restart with an older copy."""
    times = Times()
    async with timed(redis, times) as client:
        bench = await open_bench(client)
        await bench.worker.exchange()
        older: dict[Any, Any] = await client.hgetall(KEYS.meta())
        times.now += 50_000
        await bench.worker.exchange()
        await client.hset(KEYS.meta(), mapping={**older, b"run_id": b"another"})
        times.now += 5
        await bench.worker.exchange()
        assert await bench.clock() == int(older[b"clock"])
        times.now += 1_000
        await bench.worker.exchange()
        assert await bench.clock() == int(older[b"clock"]) + 1_000


async def test_a_clock_that_is_ahead_for_moments_ends_no_run(redis: Redis) -> None:
    """A minute after a leap a run expires if its time has come by then, and not before."""
    times = Times()

    async def pass_time(bench: Bench) -> None:
        times.now += 5_000
        await bench.worker.exchange()
        await bench.tend()

    async with timed(redis, times) as client:
        bench = await open_bench(client, bursts(300, 2))
        in_an_hour = int((times.now + times.ahead) / 1000) + 3_600
        await bench.feed.seeds(*(f"a/{number}" for number in range(4)), expires=in_an_hour)
        (page,) = await bench.worker.lease(1)
        times.ahead += DAY_MS
        (step,) = await bench.tend()
        assert step.next_ms
        await bench.worker.settle(page, links=[links("a", ["link"])])
        assert dict((await bench.feed.seeds("a/late")).runs) == {4: 1}
        times.ahead -= DAY_MS
        for _ in range(14):
            await pass_time(bench)
        assert not await endings(bench)
        leases = await bench.worker.lease(9)
        await bench.worker.release(*leases)
        assert len(leases) == 5

        times.ahead += DAY_MS
        begun = times.now
        while not (ended := await endings(bench)):
            assert times.now - begun <= 75_000
            await pass_time(bench)
        assert times.now - begun >= 60_000
        assert [(one.kind, one.counters["expired"]) for one in ended] == [("crawl_expired", 5)]


async def test_a_worker_sets_out_from_the_clock_as_it_finds_it(redis: Redis) -> None:
    """A new worker's requests count for a whole window after them, whatever calls came before."""
    rule, times, sends = spaced(1, 3), Times(), list[int]()
    async with timed(redis, times) as client:
        bench = await open_bench(client, rule)
        await bench.feed.seeds(*(f"a/{number}" for number in range(20)))
        await bench.worker.exchange()
        for number in range(20):
            for worker in (bench.worker, bench.another_worker(f"new{number}")):
                times.now += 1_450
                sends += await _sent(worker, times)
    assert len(sends) > 3
    check_windows(sends, rule)


async def _sent(worker: Worker, times: Times) -> list[int]:
    """When requests left, of all that may."""
    leases = await worker.lease(5)
    await worker.settle(*leases, sent_ms=0)
    return [int(times.now)] * len(leases)
