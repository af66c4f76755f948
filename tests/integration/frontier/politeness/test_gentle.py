"""Gentle rules: the pace follows the latency of the site, for the whole cluster, below the rule."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Outcome, Release, SentRequest, Settle
from crawlstream.model.inspection import DomainReport
from crawlstream.model.throttle_table import Reaction, SiteReaction, ThrottleRule
from support.frontier.bench import KEYS, Bench, Worker
from support.windows import due_ms

pytest_plugins = ["support.frontier.fixtures"]

ANSWER, SILENCE = SiteReaction(Reaction.ANSWER), SiteReaction(Reaction.SILENCE)
REFUSAL = SiteReaction(Reaction.REFUSAL, wait_ms=1)
TIMEOUT_MS, HOUR_MS = 10_000, 3_600_000
GENTLE = ThrottleRule(hits=100, window_s=1, concurrency=8, gentle=1)


@dataclass
class Latency:
    """Plain model of a site's latency, in ms, as docs/politeness.md describes it."""

    gentle: float
    rule_ms: float
    """Spacing of the rule."""
    mean: float = 0
    floor: float = 0
    measures: int = 0
    at: float = 0

    def answer(self, ms: float, now: float) -> None:
        """The site has answered after so long."""
        ms = max(ms, 1)
        self.measures += 1
        if self.measures == 1:
            self.mean = ms
        elif self.measures <= 10:
            ms = min(ms, 10 * self.mean)
            self.mean = (self.mean * (self.measures - 1) + ms) / self.measures
        else:
            self.mean = 0.9 * self.mean + 0.1 * min(ms, 10 * self.mean)
        if self.measures == 10:
            self.floor = self.mean
        elif self.measures > 10:
            self.floor = min(self.floor * 1.05 ** ((now - self.at) / HOUR_MS), self.mean)
        self.at = now

    def silence(self, timeout_ms: float, now: float) -> None:
        """The site has not answered in time; it means nothing before its first answer."""
        if self.measures:
            self.answer(timeout_ms, now)

    @property
    def spacing_ms(self) -> float:
        """Least time between two requests."""
        wanted = self.mean / self.gentle
        if self.floor and self.mean > 2 * self.floor:
            wanted *= self.mean / (2 * self.floor)
        return max(min(wanted, 300_000), self.rule_ms)


async def meet(
    worker: Worker, lease: Lease, ms: int | None, heard: SiteReaction = ANSWER, **more: int
) -> None:
    """The site reacts after so long; the page ends in the same call."""
    sent = SentRequest(lease.token, 0, received=True, heard=heard, first_byte_ms=ms)
    end = Settle(token=lease.token, outcome=Outcome.DONE, reason="2xx", sent_ms=0)
    await worker.exchange(sent=[sent], settles=[end], **more)


async def answer(bench: Bench, *latencies: int, heard: SiteReaction = ANSWER) -> None:
    """Let the site answer after these ms; each request is sent as soon as it is allowed."""
    for ms in latencies:
        lease = await next_lease(bench)
        await meet(bench.worker, lease, ms, heard)


async def next_lease(bench: Bench, worker: Worker | None = None) -> Lease:
    """The next page, when it is due."""
    worker = worker or bench.worker
    if not (leases := await worker.lease()):
        await bench.advance(await due_ms(worker))
        leases = await worker.lease()
    (lease,) = leases
    return lease


async def look(bench: Bench, domain: str = "a") -> DomainReport:
    """Return the view that an operator sees."""
    return await bench.frontier.inspector.domain(domain)


async def prepare(bench: Bench, rule: ThrottleRule = GENTLE, pages: int = 60) -> None:
    """Pages of one site."""
    await bench.rule(rule)
    await bench.feed.seeds(*(f"a/{n}" for n in range(pages)))


@pytest.mark.usefixtures("still")
async def test_the_lease_asks_for_the_latency_only_where_the_rule_is_gentle(bench: Bench) -> None:
    """Two domains in an answer: one of them is measured."""
    await bench.rule(ThrottleRule(hits=100, window_s=1), {"a": GENTLE})
    await bench.feed.seeds("a/1", "b/1")
    assert {one.domain: one.is_gentle for one in await bench.worker.lease(5)} == {
        "a": True,
        "b": False,
    }
    await bench.rule(GENTLE, {"a": ThrottleRule(hits=100, window_s=1)})
    await bench.feed.seeds("c/1", "d/1")
    assert [one.is_gentle for one in await bench.worker.lease(5)] == [True, True]


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(("gentle", "due"), [(0.5, 800), (1, 400), (2, 200), (8, 50)])
async def test_the_spacing_is_the_latency_by_the_share(
    bench: Bench, gentle: float, due: int
) -> None:
    """Spaces requests by latency divided by share, for all workers: 400 ms by share 1."""
    rule = ThrottleRule(hits=100, window_s=1, gentle=gentle)
    await prepare(bench, rule)
    await answer(bench, 400)
    other = bench.another_worker("w2")
    assert await due_ms(other) == due
    report = await look(bench)
    assert (report.latency_ms, report.lowest_latency_ms, report.gentle_ms) == (400, 0, due)
    assert list(report.spacing) == [due, "gentle"]
    await bench.advance(due)
    assert len(await other.lease(5)) == 1


@pytest.mark.usefixtures("still")
async def test_the_rule_is_the_bound(bench: Bench) -> None:
    """A site that answers at once gets no more than its rule; a Crawl-delay counts, too."""
    await prepare(bench, ThrottleRule(hits=10, window_s=1, gentle=8))
    await answer(bench, *[1] * 12)
    assert await due_ms(bench.worker) == 100
    assert (await look(bench)).spacing == (100, "rule")
    buyer = await next_lease(bench)
    await bench.worker.release(buyer, sent_ms=0, robots=True, crawl_delay_ms=3_000)
    assert await due_ms(bench.worker) == 3_000
    await bench.advance(3_000)
    await answer(bench, 8_000)
    assert await due_ms(bench.worker) == 3_000
    assert (await look(bench)).spacing == (3_000, "robots")


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(("gentle", "at_once"), [(0.5, 1), (1, 1), (2.5, 3), (8, 5)])
async def test_no_more_requests_are_in_flight_than_its_share(
    bench: Bench, gentle: float, at_once: int
) -> None:
    """Keeps no more requests in flight than the share, rounded up, and never more than the rule."""
    await prepare(
        bench, ThrottleRule(hits=1000, window_s=1, moderated=False, concurrency=5, gentle=gentle)
    )
    leases: list[Lease] = []
    for _ in range(12):
        leases += await bench.worker.lease(10)
        await bench.worker.sent(*leases)
        await bench.advance(10)
    assert len(leases) == at_once
    assert (await look(bench)).under_way == at_once


@pytest.mark.usefixtures("still")
async def test_gentle_rules_allow_no_bursts(bench: Bench) -> None:
    """Allows no bursts on a gentle site, even if its rule does."""
    await prepare(
        bench, ThrottleRule(hits=100, window_s=1, moderated=False, concurrency=50, gentle=8)
    )
    assert len(await bench.worker.lease(50)) == 1


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("more", [{"paused_until": 1_700_000_000}, {"render": 1_000}])
async def test_the_end_of_a_pause_does_not_make_a_rule_gentle(
    bench: Bench, more: dict[str, int]
) -> None:
    """Numbers of other fields are long, too: the rule allows its burst."""
    await prepare(bench, ThrottleRule(hits=20, window_s=1, moderated=False, concurrency=9, **more))
    leases = await bench.worker.lease(50)
    assert [lease.is_gentle for lease in leases] == [False] * 9


@pytest.mark.usefixtures("still")
async def test_a_site_that_becomes_slow_gets_more_rest(bench: Bench) -> None:
    """Slows down by the square beyond twice the floor, and recovers with the site."""
    await prepare(bench, pages=400)
    await answer(bench, *[100] * 10)
    assert (await look(bench)).lowest_latency_ms == 100
    await answer(bench, *[1000] * 60)
    report = await look(bench)
    assert 990 <= report.latency_ms <= 1_000
    assert 4_900 <= report.gentle_ms <= 5_000
    await answer(bench, *[100] * 60)
    report = await look(bench)
    assert 100 <= report.gentle_ms <= 105


@pytest.mark.usefixtures("still")
async def test_the_floor_is_forgotten(bench: Bench) -> None:
    """Raises the floor by 5 % an hour: in the end, a slow site is paced by latency alone."""
    await prepare(bench, pages=100)
    await answer(bench, *[100] * 10)
    await bench.advance(20 * HOUR_MS)
    await answer(bench, 100_000)
    assert (await look(bench)).lowest_latency_ms == pytest.approx(190, abs=1)
    # 1.05 ** 20 = 2.65, but the new mean is 190.


@pytest.mark.usefixtures("still")
async def test_one_broken_connection_does_not_stop_a_crawl(bench: Bench) -> None:
    """A silence counts as the timeout, but for no more than ten times the mean; many add up."""
    await prepare(bench, pages=100)
    await answer(bench, *[100] * 20)
    await answer(bench, TIMEOUT_MS, heard=SILENCE)
    assert (await look(bench)).gentle_ms == 190
    await answer(bench, *[TIMEOUT_MS] * 3, heard=SILENCE)
    assert (await look(bench)).gentle_ms > 2_000


@pytest.mark.usefixtures("still")
async def test_a_site_that_never_answered_has_no_latency(bench: Bench) -> None:
    """Its silences are for the back-off; refusals are not measured at all."""
    await prepare(bench)
    await answer(bench, TIMEOUT_MS, heard=SILENCE)
    assert (await look(bench)).latency_ms == 0
    lease = await next_lease(bench)
    await meet(bench.worker, lease, None, REFUSAL)
    report = await look(bench)
    assert (report.latency_ms, report.strikes) == (0, 1)


@pytest.mark.usefixtures("still")
async def test_at_most_five_minutes_pass(bench: Bench) -> None:
    """Waits five minutes at most, however slow a site is."""
    await prepare(bench, ThrottleRule(hits=100, window_s=1, gentle=0.01))
    await answer(bench, 9_000)
    assert await due_ms(bench.worker) == 300_000


@pytest.mark.usefixtures("still")
async def test_a_repeated_report_counts_once(bench: Bench) -> None:
    """The answer of a call was lost, and all of it is sent again."""
    await prepare(bench)
    await answer(bench, 100)
    lease = await next_lease(bench)
    sent = SentRequest(lease.token, 0, received=True, heard=ANSWER, first_byte_ms=300)
    for _ in range(3):
        await bench.worker.exchange(sent=[sent])
    assert (await look(bench)).latency_ms == 200


@pytest.mark.usefixtures("still")
async def test_a_restart_of_redis_keeps_the_latency(bench: Bench) -> None:
    """The second after it counts as a request; the spacing follows."""
    await prepare(bench)
    await answer(bench, 500)
    await bench.pretend_restart()
    assert await due_ms(bench.worker) == 500
    await bench.advance(500)
    assert await due_ms(bench.worker) == 1_000
    assert (await look(bench)).gentle_ms == 500
    await bench.advance(1_000)
    await answer(bench, 700)
    assert await due_ms(bench.worker) == 600


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("step_ms", [10 * HOUR_MS, -10 * HOUR_MS])
async def test_steps_of_the_clock_of_the_machine_change_nothing(
    bench: Bench, redis: Redis, step_ms: int
) -> None:
    """Keeps spacing and floor when the machine's clock is set: the frontier clock decides."""
    await prepare(bench, pages=100)
    await answer(bench, *[100] * 10)
    await redis.hincrby(KEYS.meta(), "wall", -step_ms)
    await answer(bench, 500)
    report = await look(bench)
    assert (report.lowest_latency_ms, report.latency_ms) == (100, 140)
    assert await due_ms(bench.worker) == 140


@pytest.mark.usefixtures("still")
async def test_a_rule_that_is_no_longer_gentle_forgets(bench: Bench, redis: Redis) -> None:
    """The rule alone applies at once; nothing is left, whether it was the default or its own."""
    own = {"b": GENTLE}
    await bench.rule(GENTLE, own)
    await bench.feed.seeds(*(f"{name}/{n}" for n in range(9) for name in "ab"))
    for lease in await bench.worker.lease(2):
        await meet(bench.worker, lease, 700)
    assert {*await redis.hkeys(KEYS.tag + "latency")} == {b"a", b"b", b"#"}
    plain = ThrottleRule(hits=100, window_s=1)
    await bench.rule(GENTLE, {"b": plain})
    assert {*await redis.hkeys(KEYS.tag + "latency")} == {b"a", b"#"}
    await bench.rule(plain, {"b": plain})
    assert not await redis.exists(KEYS.tag + "latency")
    await bench.advance(10)
    assert len(await bench.worker.lease(5)) == 2


@pytest.mark.usefixtures("still")
async def test_a_domain_without_pages_keeps_its_latency_for_an_hour(
    bench: Bench, redis: Redis
) -> None:
    """Keeps the latency of a domain without pages for an hour, then deletes it."""
    await prepare(bench, pages=1)
    await answer(bench, 700)
    await bench.advance(700)
    assert not await bench.worker.lease()
    await bench.advance(HOUR_MS - 1_000)
    await bench.tend()
    assert await redis.hexists(KEYS.tag + "latency", "a")
    await bench.advance(120_000)
    await bench.tend()
    assert not await redis.exists(KEYS.tag + "latency")
    assert not await redis.hexists(KEYS.tag + "t", "a")


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("seed", range(6))
async def test_the_frontier_does_as_the_model_says(bench: Bench, seed: int) -> None:
    """Random answers, silences, pauses, restarts, by several workers."""
    random = Random(seed)
    gentle = random.choice((0.05, 0.5, 1, 1.5, 4))
    rule = ThrottleRule(hits=random.choice((2, 50)), window_s=1, concurrency=1, gentle=gentle)
    await prepare(bench, rule, pages=90)
    model = Latency(gentle, 1000 / rule.hits)
    workers = [bench.worker, bench.another_worker("w2"), bench.another_worker("w3")]
    lately = random.choice((5, 80, 900))
    for _ in range(80):
        worker = random.choice(workers)
        lease = await next_lease(bench, worker)
        now = await bench.clock()
        if random.random() < 0.05:
            lately = random.choice((5, 80, 900, 4_000))
        if random.random() < 0.1:
            await meet(worker, lease, TIMEOUT_MS, SILENCE)
            model.silence(TIMEOUT_MS, now)
        else:
            ms = int(random.expovariate(1 / lately))
            await meet(worker, lease, ms)
            model.answer(ms, now)
        report = await look(bench)
        assert report.latency_ms == pytest.approx(model.mean, abs=1)
        assert report.lowest_latency_ms == pytest.approx(model.floor, abs=1)
        assert max(report.gentle_ms, model.rule_ms) == pytest.approx(model.spacing_ms, abs=1)
        if report.not_before_ms == 0 and report.strikes == 0:
            assert await due_ms(random.choice(workers)) == pytest.approx(model.spacing_ms, abs=2)
        if random.random() < 0.05:
            await bench.advance(random.choice((HOUR_MS, 30 * HOUR_MS)))


@pytest.mark.usefixtures("still")
async def test_the_text_of_a_rule_is_read_by_the_version_before(bench: Bench, redis: Redis) -> None:
    """Its pattern takes the limits of requests, and passes over what it does not know."""
    paused = ThrottleRule(hits=7, window_s=2, moderated=False, render=12, gentle=1.5)
    await bench.rule(paused)
    client: Any = redis
    text = await client.hget(KEYS.tag + "rules", "")
    pattern = "^(%d+) (%d+) (%d) (%d+) ?(%d*) ?%d*$"
    found = await client.eval("return { string.match(ARGV[1], ARGV[2]) }", 0, text, pattern)
    assert found == [b"7", b"2000", b"0", b"8", b"0"]


@pytest.mark.usefixtures("still")
async def test_a_release_reports_a_latency_too(bench: Bench) -> None:
    """The grant was spent on a robots.txt, which is a measure like any other."""
    await prepare(bench)
    lease = await next_lease(bench)
    sent = SentRequest(lease.token, 0, received=True, heard=ANSWER, first_byte_ms=250)
    release = Release(token=lease.token, sent_ms=0, robots=True)
    await bench.worker.exchange(sent=[sent], releases=[release])
    assert await due_ms(bench.worker) == 250
