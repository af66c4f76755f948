"""Politeness: no window exceeds its hits, by the list of the sends themselves."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from random import Random

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import CrawlKey, Hold
from crawlstream.model.effects import Release, Sent
from crawlstream.model.throttle import ThrottleRule
from support.frontier import KEYS, WIDE_OPEN, Bench, Worker, open_bench
from support.frontier_audit import audit

pytest_plugins = ["support.frontier_fixtures"]


def spaced(hits: int, window_s: float, concurrency: int = 100) -> ThrottleRule:
    """A moderated rule."""
    return ThrottleRule(hits=hits, window_s=window_s, concurrency=concurrency)


def bursts(hits: int, window_s: float, concurrency: int = 1_000) -> ThrottleRule:
    """An unmoderated rule."""
    return ThrottleRule(hits=hits, window_s=window_s, moderated=False, concurrency=concurrency)


async def due_ms(worker: Worker) -> int:
    """How long nothing is allowed."""
    answer = await worker.exchange(want=1)
    assert not answer.holds, "allowed now"
    assert answer.next_due_ms is not None
    return answer.next_due_ms


def check_windows(sends: list[int], rule: ThrottleRule) -> None:
    """No window of the rule holds more sends than its hits."""
    window, hits, times = int(rule.window_s * 1000), rule.effective_hits, sorted(sends)
    for first, beyond in zip(times, times[hits:], strict=False):
        assert beyond - first >= window, (beyond - first, window, hits)


@pytest.mark.usefixtures("still")
async def test_spacing_runs_from_the_reported_send(bench: Bench) -> None:
    """A moderated domain is due one spacing after its request left, not after its grant."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds("a/1", "a/2", "a/3")
    (hold,) = await bench.worker.lease()
    await bench.advance(700)
    await bench.worker.sent(hold, after_ms=400)
    assert 600 <= await due_ms(bench.worker) <= 700
    await bench.advance(700)
    assert len(await bench.worker.lease()) == 1


@pytest.mark.usefixtures("still")
async def test_an_unreported_send_counts_as_now(bench: Bench) -> None:
    """While nobody says that a request has left, a moderated domain waits."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds("a/1", "a/2")
    (hold,) = await bench.worker.lease()
    await bench.advance(20_000)
    assert 900 <= await due_ms(bench.worker) <= 1_000
    await bench.worker.settle(hold)
    assert 900 <= await due_ms(bench.worker) <= 1_000


@pytest.mark.usefixtures("still")
async def test_a_report_never_lies_in_the_future(bench: Bench) -> None:
    """A worker's clock that runs fast does not push its domain back."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds("a/1", "a/2")
    (hold,) = await bench.worker.lease()
    await bench.worker.sent(hold, after_ms=3_600_000)
    assert await due_ms(bench.worker) <= 1_000


@pytest.mark.usefixtures("still")
async def test_late_sends_push_the_window_back(bench: Bench) -> None:
    """A burst counts until one window after its sends: late ones allow no second burst early."""
    await bench.rule(bursts(3, 10))
    await bench.feed.seeds(*(f"a/{i}" for i in range(9)))
    holds = await bench.worker.lease(9)
    assert len(holds) == 3
    await bench.advance(2_000)
    await bench.worker.sent(*holds, after_ms=1_900)
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
    holds = await bench.worker.lease(2)
    await bench.worker.release(*holds)
    assert 9_500 <= await due_ms(bench.worker) <= 10_001


@pytest.mark.usefixtures("still")
async def test_concurrency_counts_from_lease_to_response(bench: Bench) -> None:
    """No more requests are under way than the rule allows; a response makes room at once."""
    await bench.rule(bursts(1_000, 1, concurrency=2))
    await bench.feed.seeds(*(f"a/{i}" for i in range(5)))
    one, two = await bench.worker.lease(5)
    assert await due_ms(bench.worker) > 0
    await bench.worker.sent(one, two)
    assert await due_ms(bench.worker) > 0
    answer = await bench.worker.exchange(sent=[Sent(one.token, 1, received=True)], want=5)
    assert len(answer.holds) == 1
    await bench.worker.settle(one)
    assert not await bench.worker.lease(5)
    await bench.worker.settle(two)
    assert len(await bench.worker.lease(5)) == 1


@pytest.mark.usefixtures("still")
async def test_spiders_share_the_allowance_of_a_domain(bench: Bench) -> None:
    """The limit is what the site sees, whoever asks."""
    await bench.rule(spaced(1, 10))
    other = bench.another_worker("w2", "other")
    await bench.feed.seeds("a/1", "a/2")
    await bench.feed.seeds("a/3", crawl=CrawlKey("other", "app", "c"))
    (hold,) = await bench.worker.lease()
    await bench.worker.settle(hold, sent_ms=0)
    assert await due_ms(other) > 9_000
    await bench.advance(10_000)
    assert len(await other.lease()) == 1
    assert await due_ms(bench.worker) > 9_000


@pytest.mark.usefixtures("still")
async def test_retries_pay_like_any_request(bench: Bench) -> None:
    """A requeued entry waits for its domain's next turn."""
    await bench.rule(spaced(1, 10))
    await bench.feed.seeds("a/1")
    (hold,) = await bench.worker.lease()
    await bench.worker.requeue(hold, sent_ms=0)
    assert 9_000 < await due_ms(bench.worker) <= 10_000


@pytest.mark.usefixtures("still")
async def test_a_robots_txt_and_its_page_may_go_back_to_back(bench: Bench) -> None:
    """The first grant of a domain buys its robots.txt; the page follows, then a double pause."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds("a/1", "a/2", "a/3")
    (hold,) = await bench.worker.lease()
    await bench.worker.sent(hold)
    answer = await bench.worker.exchange(
        releases=[Release(token=hold.token, sent_ms=0, robots=True)], want=5
    )
    (page,) = answer.holds
    await bench.worker.settle(page, sent_ms=0)
    assert 1_900 <= await due_ms(bench.worker) <= 2_000
    await bench.advance(2_000)
    (again,) = await bench.worker.lease(5)
    await bench.worker.release(again, sent_ms=0, robots=True)
    assert 900 <= await due_ms(bench.worker) <= 1_000


@pytest.mark.usefixtures("still")
async def test_one_hit_a_window_earns_no_bonus(bench: Bench) -> None:
    """Where the rule allows one request, a robots.txt is that request."""
    await bench.rule(spaced(1, 10))
    await bench.feed.seeds("a/1")
    (hold,) = await bench.worker.lease()
    await bench.worker.release(hold, sent_ms=0, robots=True)
    assert await due_ms(bench.worker) > 9_000


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("rule", [spaced(2, 10), bursts(5, 10)])
async def test_after_a_restart_a_domain_has_used_its_allowance(
    bench: Bench, rule: ThrottleRule
) -> None:
    """Each domain waits one spacing, or its own window, after a restart; no longer, and once."""
    await bench.rule(rule)
    await bench.feed.seeds("a/1", "a/2")
    life = (await bench.worker.exchange()).life
    await bench.pretend_restart()
    answer = await bench.worker.exchange(want=1)
    assert (answer.life > life, list(answer.holds)) == (True, [])
    pause = 5_000 if rule.moderated else 10_001
    assert pause - 100 <= await due_ms(bench.worker) <= pause
    await bench.advance(pause)
    (hold,) = await bench.worker.lease()
    await bench.worker.settle(hold, sent_ms=0)
    await bench.advance(pause)
    assert len(await bench.worker.lease()) == 1


@pytest.mark.usefixtures("still")
async def test_a_long_window_of_one_domain_holds_back_no_other(bench: Bench) -> None:
    """A restart makes nobody wait for the longest window of the table."""
    await bench.rule(spaced(10, 1), {"slow": bursts(1, 86_400)})
    await bench.feed.seeds("slow/1", "a/1")
    await bench.pretend_restart()
    assert await due_ms(bench.worker) <= 100
    await bench.advance(100)
    assert await bench.worker.urls() == ["a/1"]


async def test_a_restart_with_holds_under_way_keeps_them(bench: Bench) -> None:
    """What Redis' log kept is still held, and may be settled."""
    await bench.feed.seeds("a/1", "a/2")
    (hold,) = await bench.worker.lease()
    await bench.pretend_restart()
    assert not (await bench.worker.settle(hold)).stale
    assert (await bench.state()).done == 1


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000, 10_001, -1])
async def test_a_step_of_the_machine_s_clock_gives_nothing_away(bench: Bench, step_ms: int) -> None:
    """When Redis' clock jumps, no window opens early, and time goes on afterwards."""
    await bench.rule(spaced(10, 10))
    await bench.feed.seeds("a/1", "a/2")
    (hold,) = await bench.worker.lease()
    await bench.worker.settle(hold, sent_ms=0)
    await bench.redis.hincrby(KEYS.meta(), "wall", -step_ms)
    assert 100 <= await due_ms(bench.worker) <= 1_000
    await bench.advance(1_000)
    assert len(await bench.worker.lease()) == 1


@pytest.mark.usefixtures("still")
async def test_a_rule_that_becomes_unmoderated_grants_no_burst_on_top(bench: Bench) -> None:
    """What was sent evenly before counts as a whole allowance of the new rule."""
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
    """However many hits a window has, a domain's state stays small."""
    await bench.rule(bursts(100_000, 60))
    await bench.feed.seeds(*(f"a/{i}" for i in range(600)))
    for _ in range(300):
        await bench.worker.settle(*await bench.worker.lease(2), sent_ms=0)
        await bench.advance(300)
    assert await bench.redis.hstrlen("{cs0}t", "a") < 2_000


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
    granted: dict[str, tuple[Worker, Hold, int]] = field(default_factory=dict)
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
            Sent(hold.token, self.sent_at[name] - at, self.random.random() < 0.5)
            for name, (of, hold, at) in self.granted.items()
            if of is worker and name in self.sent_at and self.random.random() < 0.5
        ]
        holds = (await worker.exchange(sent=sent, want=self.random.choice((1, 3, 20)))).holds
        at = await self.bench.clock()
        for hold in holds:
            self.granted[f"{worker.name} {hold.token}"] = (worker, hold, at)

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
        """Some holds end: settled if they were sent, given back otherwise."""
        for name, (worker, hold, at) in list(self.granted.items()):
            sent_at = self.sent_at.get(name)
            if self.random.random() < (0.05 if sent_at is None else 0.4):
                del self.granted[name]
                self.sent_at.pop(name, None)
                if sent_at is None:
                    await worker.release(hold)
                elif self.random.random() < 0.3:
                    await worker.release(hold, sent_ms=sent_at - at, robots=True)
                else:
                    await worker.settle(hold, sent_ms=sent_at - at)

    async def upset(self) -> None:
        """A worker dies, Redis restarts, or its machine's clock jumps."""
        fate = self.random.random()
        if fate < 0.4:
            worker = self.workers.pop(self.random.randrange(len(self.workers)))
            await self.bench.frontier.blame(worker.name, "")
            mine = [name for name, (of, _, _) in self.granted.items() if of is worker]
            for name in mine:
                del self.granted[name]
        elif fate < 0.6:
            await self.bench.pretend_restart()
        else:
            step = self.random.choice((-50_000, 30_000))
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
        sends += len(answer.holds)
        if answer.holds:
            await bench.worker.settle(*answer.holds, sent_ms=0)
        else:
            assert answer.next_due_ms is not None
            await bench.advance(max(answer.next_due_ms, 1))
    assert sends >= 0.95 * windows * rule.hits


async def test_many_clients_at_once_get_exactly_the_allowance(redis: Redis) -> None:
    """Of two hundred calls at the same moment exactly as many are granted as the rule allows."""
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
    """With a real clock, several workers and late sends, no window of real sends is crowded."""
    bench = await open_bench(redis, rule)
    await bench.feed.seeds(*(f"a/{i}" for i in range(150)))
    random, sends, until = Random(1), [], time.monotonic() + 2.0

    async def work(worker: Worker) -> None:
        while time.monotonic() < until:
            issued = time.monotonic()
            answer = await worker.exchange(want=3)
            for hold in answer.holds:
                await asyncio.sleep(random.random() * 0.03)
                sends.append(time.monotonic())
                await worker.settle(hold, sent_ms=int((sends[-1] - issued) * 1000) + 1)
            if not answer.holds:
                await asyncio.sleep((answer.next_due_ms or 1) / 1000)

    await asyncio.gather(*(work(bench.another_worker(f"w{i}")) for i in range(4)))
    assert len(sends) > 15
    # The referee's stamps may be a millisecond off.
    check_windows([int(at * 1000) for at in sends], ThrottleRule(hits=5, window_s=0.249))
