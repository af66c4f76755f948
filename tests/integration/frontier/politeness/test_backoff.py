"""Rates by a site's own answers: back-off, one probe, Crawl-delay; for the whole cluster."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import UNSENT, ExchangeResult, Outcome, Release, SentRequest
from crawlstream.model.inspection import DomainReport
from crawlstream.model.throttle_table import Reaction, SiteReaction, ThrottleRule
from support.frontier.audit import audit
from support.frontier.bench import KEYS, WIDE_OPEN, Bench, Worker, open_bench

pytest_plugins = ["support.frontier.fixtures"]

SILENCE = SiteReaction(Reaction.SILENCE)
REFUSAL = SiteReaction(Reaction.REFUSAL)


def asked(wait_s: float) -> SiteReaction:
    """A refusal with Retry-After."""
    return SiteReaction(Reaction.REFUSAL, wait_ms=int(wait_s * 1000))


async def meet(worker: Worker, lease: Lease, heard: SiteReaction) -> ExchangeResult:
    """The site reacts; the page goes back."""
    report = SentRequest(lease.token, 0, received=True, heard=heard)
    return await worker.exchange(sent=[report], releases=[Release(token=lease.token, sent_ms=0)])


async def due_ms(worker: Worker) -> int:
    """How long nothing is allowed."""
    answer = await worker.exchange(want=5)
    assert not answer.leases, "allowed now"
    assert answer.next_due_ms is not None
    return answer.next_due_ms


async def look(bench: Bench, domain: str = "a") -> DomainReport:
    """Return the view that an operator sees."""
    return await bench.frontier.inspector.domain(domain)


async def refuse_in_a_row(bench: Bench, times: int, heard: SiteReaction = REFUSAL) -> list[int]:
    """Let the site react so to each trial; the pauses after them."""
    pauses: list[int] = []
    for _ in range(times):
        (lease,) = await bench.worker.lease(5 if pauses else 1)
        await meet(bench.worker, lease, heard)
        pauses.append(await due_ms(bench.worker))
        await bench.advance(pauses[-1])
    return pauses


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(("asked_s", "kept_s"), [(7, 7), (10**7, 3_600), (0, 1)])
async def test_no_worker_asks_before_retry_after(
    bench: Bench, asked_s: float, kept_s: float
) -> None:
    """The whole domain waits, for every worker; at most an hour, and a second if it says 0."""
    await bench.feed.seeds("a/1", "a/2", "b/1")
    one, *_ = [lease for lease in await bench.worker.lease(1) if lease.domain == "a"]
    await meet(bench.worker, one, asked(asked_s))
    other = bench.another_worker("w2")
    (elsewhere,) = await other.lease(5)
    assert elsewhere.domain == "b"
    assert kept_s * 1000 - 100 <= await due_ms(other) <= kept_s * 1000
    await bench.advance(int(kept_s * 1000))
    assert len(await other.lease(5)) == 1


@pytest.mark.usefixtures("still")
async def test_a_date_is_counted_by_the_clock_of_redis(bench: Bench) -> None:
    """If the site gives a date and no clock of its own, no worker's clock is used."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    until_ms = int(time.time() * 1000) + 20_000
    await meet(bench.worker, lease, SiteReaction(Reaction.REFUSAL, until_ms=until_ms))
    assert 18_000 <= await due_ms(bench.worker) <= 20_001


async def test_pauses_double_until_an_answer(bench: Bench) -> None:
    """Doubles pauses without Retry-After, 1 s, 2 s … 300 s; an answer resets them."""
    await bench.feed.seeds("a/1", "a/2", "a/3")
    pauses = [round(ms / 1000) for ms in await refuse_in_a_row(bench, 11)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert (await look(bench)).strikes == 11
    (lease,) = await bench.worker.lease(5)
    await bench.worker.settle(lease, sent_ms=0)
    report = await look(bench)
    assert (report.strikes, report.unanswered_ms, report.not_before_ms) == (0, 0, 0)
    leases = await bench.worker.lease(5)
    assert len(leases) == 2
    await meet(bench.worker, leases[0], REFUSAL)
    assert 900 <= (await look(bench)).not_before_ms <= 1_000


async def test_what_was_under_way_before_a_refusal_is_no_news(bench: Bench) -> None:
    """Eight requests that left together are refused once, not eight times; answers end nothing."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(20)))
    leases = await bench.worker.lease(8)
    assert len(leases) == 8
    await bench.advance(5)
    for lease in leases[:6]:
        await meet(bench.worker, lease, REFUSAL)
    await bench.worker.settle(leases[6], sent_ms=0)
    report = await look(bench)
    assert (report.strikes, report.under_way) == (1, 1)
    assert report.not_before_ms > 0
    await meet(bench.worker, leases[7], asked(60))
    report = await look(bench)
    assert report.strikes == 1
    assert 59_000 < report.not_before_ms <= 60_000


async def test_after_a_back_off_one_request_of_the_whole_cluster_tries(redis: Redis) -> None:
    """If many workers call at once, one gets one; the others when it has been answered."""
    bench = await open_bench(redis, WIDE_OPEN)
    await bench.feed.seeds(*(f"a/{i}" for i in range(50)))
    (lease,) = await bench.worker.lease()
    await meet(bench.worker, lease, REFUSAL)
    await bench.advance(1_000)
    workers = [bench.another_worker(f"w{i}") for i in range(10)]
    for _ in range(3):
        granted = await asyncio.gather(*(worker.lease(5) for worker in workers))
        ((trial, worker),) = [
            (lease, worker)
            for leases, worker in zip(granted, workers, strict=True)
            for lease in leases
        ]
        await worker.release(trial)
    (trial,) = await workers[0].lease(5)
    assert not await workers[1].lease(5)
    await workers[0].settle(trial, sent_ms=0)
    assert len(await workers[1].lease(5)) == 5


async def test_the_trial_of_a_worker_that_died_is_made_by_another(bench: Bench) -> None:
    """A probe that gets no answer leases nothing beyond its worker's end."""
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await meet(bench.worker, lease, REFUSAL)
    await bench.advance(1_000)
    doomed, other = bench.another_worker("doomed"), bench.another_worker("other")
    assert len(await doomed.lease(5)) == 1
    assert not await other.lease(5)
    await bench.blame("doomed", "")
    assert len(await other.lease(5)) == 1


async def test_repeated_silence_is_a_back_off_and_one_is_not(bench: Bench) -> None:
    """Backs off from the fifth silence in a row; an answer in between restarts the count."""
    await bench.feed.seeds("a/1", "a/2")
    for number in range(9):
        (lease,) = await bench.worker.lease()
        if number == 4:
            await bench.worker.settle(lease, sent_ms=0)
        else:
            await meet(bench.worker, lease, SILENCE)
    assert (await look(bench)).silences == 4
    pauses = await refuse_in_a_row(bench, 3, SILENCE)
    assert [round(ms / 1000) for ms in pauses] == [1, 2, 4]


async def test_silence_is_counted_from_its_own_beginning(bench: Bench) -> None:
    """A site that has refused for long is not given up as silent at its first silences."""
    await bench.feed.seeds("a/1")
    await refuse_in_a_row(bench, 14)
    assert (await look(bench)).unanswered_ms > 20 * 60_000
    for _ in range(5):
        (lease,) = await bench.worker.lease()
        await meet(bench.worker, lease, SILENCE)
    await bench.tend()
    report = await look(bench)
    assert (report.silences, report.unanswered_ms < 1_000) == (5, True)
    assert (await bench.state()).failed == 0


@pytest.mark.usefixtures("still")
async def test_the_result_of_a_refusal_is_no_answer(bench: Bench) -> None:
    """A page that came back as 429 is done, and its site is left alone all the same."""
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    refused = SiteReaction(Reaction.REFUSAL, 7_000)
    await bench.worker.exchange(sent=[SentRequest(lease.token, 0, received=True, heard=refused)])
    await bench.worker.settle(lease)
    assert await due_ms(bench.worker) == 7_000


async def test_a_report_that_is_repeated_counts_once(bench: Bench) -> None:
    """Counts a strike once if the answer to its report was lost and it is repeated."""
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    for heard in (SILENCE, SILENCE, REFUSAL):
        await bench.worker.exchange(sent=[SentRequest(lease.token, 0, received=True, heard=heard)])
    report = await look(bench)
    assert (report.silences, report.strikes) == (1, 0)


async def test_a_stale_worker_s_word_counts_for_nothing(bench: Bench) -> None:
    """Reports of a worker about a lease that another worker has change nothing."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.blame(bench.worker.name, "")
    await meet(bench.worker, lease, asked(600))
    assert (await look(bench)).not_before_ms == 0


@pytest.mark.usefixtures("still")
async def test_care_outlives_an_empty_domain_and_ends(bench: Bench) -> None:
    """A back-off without queued pages is kept until its time, and forgotten after it."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    report = SentRequest(lease.token, 0, received=True, heard=asked(600))
    await bench.worker.exchange(sent=[report])
    await bench.worker.settle(lease, sent_ms=0)
    await bench.tend()
    await bench.feed.seeds("a/2")
    assert 590_000 < await due_ms(bench.worker) <= 600_000
    await bench.feed.say("stop")
    for _ in range(30):
        await bench.worker.exchange(want=1)
        await bench.tend()
        await bench.advance(120_000)
    assert not await bench.redis.hexists(KEYS.tag + "t", "a")


async def test_crawl_delay_lowers_the_rate_and_never_raises_it(bench: Bench) -> None:
    """The slower of rule and robots.txt counts, up to five minutes, for a day."""
    await bench.rule(ThrottleRule(hits=10, window_s=10))
    await bench.feed.seeds(*(f"a/{i}" for i in range(9)))

    async def grant() -> Lease:
        while not (answer := await bench.worker.exchange(want=5)).leases:
            await bench.advance(max(answer.next_due_ms or 0, 1))
        (lease,) = answer.leases
        return lease

    async def buy(delay_ms: int) -> int:
        """Seconds from a robots.txt that asks for a pause to the next grant."""
        lease = await grant()
        end = Release(token=lease.token, sent_ms=0, robots=True, crawl_delay_ms=delay_ms)
        await bench.worker.exchange(releases=[end])
        since = await bench.clock()
        lease = await grant()
        waited_s = round((await bench.clock() - since) / 1000)
        await bench.worker.release(lease, sent_ms=0)
        await bench.advance((await look(bench)).next_ms)
        return waited_s

    assert await buy(4_000) == 4
    assert await buy(2_000) == 4, "the slowest of a domain's hosts counts"
    assert await buy(100) == 4
    assert await buy(10**9) == 300
    assert (await look(bench)).crawl_delay_ms == 300_000
    await bench.rule(ThrottleRule(hits=1, window_s=1_000))
    await bench.advance(1_000_000)
    assert await buy(1_000) == 1_000


@pytest.mark.usefixtures("still")
async def test_crawl_delay_spaces_bursts(bench: Bench) -> None:
    """An unmoderated rule becomes an even one."""
    await bench.rule(ThrottleRule(hits=100, window_s=10, moderated=False))
    await bench.feed.seeds(*(f"a/{i}" for i in range(30)))
    (buyer, *others) = await bench.worker.lease(8)
    end = Release(token=buyer.token, sent_ms=0, robots=True, crawl_delay_ms=500)
    await bench.worker.exchange(releases=[end])
    await bench.worker.release(*others)
    for _ in range(3):
        assert 400 <= await due_ms(bench.worker) <= 500
        await bench.advance(500)
        (lease,) = await bench.worker.lease(8)
        await bench.worker.settle(lease, sent_ms=0)
    await audit(bench.redis)


@pytest.mark.usefixtures("still")
async def test_a_site_rests_outside_its_hours_and_has_refused_nothing(bench: Bench) -> None:
    """Is left alone for an hour at most; no answer ends that, and no trial comes after it."""
    await bench.rule(WIDE_OPEN)
    await bench.feed.seeds(*(f"a/{i}" for i in range(6)), "b/1")
    early, late, *others = [each for each in await bench.worker.lease(7) if each.domain == "a"]
    await bench.worker.release(late, *others, rest_ms=7_200_000)
    await bench.worker.settle(early, sent_ms=0)
    assert 3_599_000 < await due_ms(bench.worker) <= 3_600_000
    report = await look(bench)
    assert (report.is_outside_hours, report.strikes, report.silences) == (True, 0, 0)
    assert not (await look(bench, "b")).is_outside_hours
    await bench.advance(3_600_000)
    assert len(await bench.worker.lease(9)) == 5
    assert not (await look(bench)).is_outside_hours


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("outcome", [Outcome.REDIRECTED, Outcome.SKIPPED])
async def test_a_page_that_ends_without_a_request_costs_no_turn_and_tells_nothing(
    bench: Bench, outcome: Outcome
) -> None:
    """Lets the next page go at once; a site that backs off has answered nothing by that."""
    await bench.rule(ThrottleRule(hits=1, window_s=100))
    await bench.feed.seeds(*(f"a/{i}" for i in range(3)))
    unsent: dict[str, Any] = {"outcome": outcome, "sent_ms": UNSENT}
    await bench.worker.settle(*await bench.worker.lease(), **unsent)
    (lease,) = await bench.worker.lease(5)
    await meet(bench.worker, lease, asked(200))
    await bench.advance(200_000)
    await bench.worker.settle(*await bench.worker.lease(), **unsent)
    assert (await look(bench)).strikes == 1
    (lease,) = await bench.worker.lease(5)
    await bench.worker.settle(lease, sent_ms=0)
    assert (await look(bench)).strikes == 0
    await audit(bench.redis)
