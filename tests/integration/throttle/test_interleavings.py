"""Politeness under concurrency: no order of events, and no number of clients, crowds a window."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from random import Random

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import SentRequest
from crawlstream.model.throttle_table import ThrottleRule
from support.frontier.audit import audit
from support.frontier.bench import KEYS, WIDE_OPEN, Bench, Worker, open_bench
from support.windows import bursts, check_windows, spaced

pytest_plugins = ["support.frontier.fixtures"]

RULES = [
    spaced(5, 0.3),
    spaced(1, 0.05),
    spaced(2, 0.1),
    bursts(3, 0.1),
    bursts(1, 0.05),
    bursts(7, 0.3, concurrency=4),
    bursts(300, 0.3),
    WIDE_OPEN,
]


@dataclass
class Interleaving:
    """Workers of one domain that lease, send late, report late, give back, die; and the referee."""

    bench: Bench
    rule: ThrottleRule
    random: Random
    sends: list[int] = field(default_factory=list)
    granted: dict[str, tuple[Worker, Lease, int]] = field(default_factory=dict)
    sent_at: dict[str, int] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)
    now: int = 0

    async def run(self, steps: int) -> None:
        """Take random steps."""
        await self.bench.rule(self.rule)
        await self.bench.feed.seeds(*(f"a/{i}" for i in range(200)))
        moves = [self.lease, self.pass_time] * 2 + [self.send] * 3 + [self.end] * 2 + [self.upset]
        for _ in range(steps):
            if len(self.workers) < 3:
                number = self.random.getrandbits(40)
                self.workers.append(self.bench.another_worker(f"w{number}"))
            await self.random.choice(moves)()
            self.now = await self.bench.clock()

    async def lease(self) -> None:
        """Some worker takes what it gets, and reports some departures on the way."""
        worker = self.random.choice(self.workers)
        sent = [
            SentRequest(lease.token, self.sent_at[name] - at, self.random.random() < 0.5)
            for name, (of, lease, at) in self.granted.items()
            if of is worker and name in self.sent_at and self.random.random() < 0.5
        ]
        leases = (await worker.exchange(sent=sent, want=self.random.choice((1, 3, 20)))).leases
        at = await self.bench.clock()
        for lease in leases:
            self.granted[f"{worker.name} {lease.token}"] = (worker, lease, at)

    async def pass_time(self) -> None:
        """A little time passes."""
        await self.bench.advance(self.random.choice((1, 5, 20, 60, 120)))

    async def send(self) -> None:
        """Some requests leave, at this very moment."""
        for name in list(self.granted):
            if name not in self.sent_at and self.random.random() < 0.5:
                self.sent_at[name] = self.now
                self.sends.append(self.now)

    async def end(self) -> None:
        """Some leases end: settled if they were sent, given back otherwise."""
        for name, (worker, lease, at) in list(self.granted.items()):
            sent_at = self.sent_at.get(name)
            if self.random.random() < (0.05 if sent_at is None else 0.4):
                del self.granted[name]
                self.sent_at.pop(name, None)
                if sent_at is None:
                    await worker.release(lease)
                elif self.random.random() < 0.3:
                    await worker.release(lease, sent_ms=sent_at - at, robots=True)
                else:
                    await worker.settle(lease, sent_ms=sent_at - at)

    async def upset(self) -> None:
        """A worker dies, Redis restarts, or its machine's clock jumps."""
        fate = self.random.random()
        if fate < 0.4:
            worker = self.workers.pop(self.random.randrange(len(self.workers)))
            await self.bench.blame(worker.name, "")
            mine = [name for name, (of, _, _) in self.granted.items() if of is worker]
            for name in mine:
                del self.granted[name]
        elif fate < 0.6:
            await self.bench.pretend_restart()
        else:
            step = self.random.choice((-50_000, -10_000, -999, 100, 5_000, 30_000))
            await self.bench.redis.hincrby(KEYS.meta(), "wall", step)


@pytest.mark.parametrize("rule", RULES, ids=str)
async def test_no_interleaving_overruns_a_window(redis: Redis, rule: ThrottleRule) -> None:
    """Late sends, late reports, deaths, restarts and clock steps never crowd a window."""
    sends = 0
    for number in range(5):
        await redis.flushdb()
        interleaving = Interleaving(await open_bench(redis), rule, Random(number))
        await interleaving.run(120)
        await audit(redis)
        check_windows(interleaving.sends, rule)
        sends += len(interleaving.sends)
    assert sends >= 10


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("rule", [spaced(2, 1), bursts(10, 1), bursts(500, 1)], ids=str)
async def test_a_prompt_worker_gets_what_is_allowed(bench: Bench, rule: ThrottleRule) -> None:
    """Nineteen twentieths of the allowance at least are used when there is work enough."""
    await bench.rule(rule)
    windows = 4 if rule.hits > 100 else 20
    urls = [f"a/{i}" for i in range(windows * rule.hits + 10)]
    for start in range(0, len(urls), 500):
        await bench.feed.seeds(*urls[start : start + 500])
    await bench.worker.exchange(want=0)
    begun, sends = await bench.clock(), 0
    while await bench.clock() < begun + windows * 1_000:
        answer = await bench.worker.exchange(want=50)
        sends += len(answer.leases)
        if answer.leases:
            await bench.worker.settle(*answer.leases, sent_ms=0)
        else:
            assert answer.next_due_ms is not None
            await bench.advance(max(answer.next_due_ms, 1))
    assert sends >= 0.95 * windows * rule.hits


async def test_many_clients_at_once_get_exactly_the_allowance(redis: Redis) -> None:
    """Two hundred calls at the same moment get exactly as many grants as the rule allows."""
    bench = await open_bench(redis, bursts(37, 60))
    await bench.feed.seeds(*(f"a/{i}" for i in range(200)))
    workers = [bench.another_worker(f"w{i}") for i in range(20)]

    async def ask(worker: Worker) -> int:
        return sum([len(await worker.lease(1)) for _ in range(10)])

    granted = await asyncio.gather(*map(ask, workers))
    assert sum(granted) == 37


@pytest.mark.parametrize("rule", [spaced(5, 0.25), bursts(5, 0.25)], ids=str)
async def test_workers_side_by_side_keep_the_rule_by_the_wall_clock(
    redis: Redis, rule: ThrottleRule
) -> None:
    """Crowds no window of real sends, with a real clock, several workers and late sends."""
    bench = await open_bench(redis, rule)
    await bench.feed.seeds(*(f"a/{i}" for i in range(150)))
    random, sends, until = Random(1), [], time.monotonic() + 2.0

    async def work(worker: Worker) -> None:
        while time.monotonic() < until:
            issued = time.monotonic()
            answer = await worker.exchange(want=3)
            for lease in answer.leases:
                await asyncio.sleep(random.random() * 0.03)
                sends.append(time.monotonic())
                await worker.settle(lease, sent_ms=int((sends[-1] - issued) * 1000) + 1)
            if not answer.leases:
                await asyncio.sleep((answer.next_due_ms or 1) / 1000)

    await asyncio.gather(*(work(bench.another_worker(f"w{i}")) for i in range(4)))
    assert len(sends) > 15
    # The referee's stamps may be a millisecond off.
    check_windows([int(at * 1000) for at in sends], ThrottleRule(hits=5, window_s=0.249))
